"""Measure the precision levels of MiniLM: accuracy and speed, compared with torch.

    python -m benchmarks.levels [--threads 1] [--rounds 15]

Measure every candidate of `precision: auto` on a CPU, and fp16 as a CPU runs it, which shows only its error.
torch and the graphs alternate within each shape, so that other load on the machine affects all.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from model_build.data.cases import Case
from model_build.errors import ExportError
from model_build.exporters.text_framework import TextFramework
from model_build.graphs.candidates import make
from model_build.graphs.levels import FP16, FP32, candidate_levels
from model_build.graphs.running import LoadedGraph
from model_build.sources import fetch_source
from tritonstack.base.files import folder_bytes
from tritonstack.base.paths import find_project
from tritonstack.base.yaml import load_document
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import TextEmbeddingRecipe

Array = NDArray[Any]
Run = Callable[[Mapping[str, Array]], Array]
MODEL = "minilm-embedding"
SHAPES = ((1, 16), (1, 128), (8, 128), (32, 128))
WORDS = ("river", "winter", "engine", "letter", "garden", "market", "signal", "window", "copper", "doctor")
TEXTS = 20


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of torch and of each graph")
    parser.add_argument(
        "--rounds", type=int, default=15, help="number of runs per shape, of which the median is reported"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    framework, texts = _load()
    with tempfile.TemporaryDirectory() as folder:
        graphs, sizes = _graphs(framework, _cases(framework, texts), Path(folder), options.threads)
        runs: dict[str, Run] = {"torch": lambda inputs: framework.answer(inputs)["embedding"], **graphs}
        times: dict[str, list[float]] = {name: [] for name in runs}
        for batch, length in SHAPES:
            for name, median in _times(runs, _tokens(batch, length), options.rounds).items():
                times[name].append(median)
        near = {name: _cosines(run, framework, texts) for name, run in runs.items()}
    table = Table("graph", "MB", "cosine min", "mean", *(f"b{b} s{s} ms" for b, s in SHAPES))
    table.title = f"MiniLM, {options.threads} thread(s), median of {options.rounds}"
    for name, elapsed in times.items():
        cosines = near[name]
        size = f"{sizes[name] / 1e6:.1f}" if name in sizes else ""
        figures = (
            f"{cosines.min():.5f}",
            f"{cosines.mean():.5f}",
            *(f"{milliseconds:.2f}" for milliseconds in elapsed),
        )
        table.add_row(name, size, *figures)
    Console().print(table)


def _load() -> tuple[TextFramework, list[str]]:
    project = find_project(Path(__file__))
    document = load_document(project.model_file(MODEL), ModelSpec)
    spec = document.record
    if spec.source is None or not isinstance(spec.recipe, TextEmbeddingRecipe):
        raise SystemExit(f"{MODEL} is not a text-embedding model with a source")
    source = fetch_source(spec.source, model_folder=document.file.parent, cache_dir=project.cache_dir)
    framework = TextFramework(source=source, recipe=spec.recipe)
    random = np.random.default_rng(11)
    texts = list(spec.test_texts)
    texts += [" ".join(random.choice(WORDS, random.integers(3, 40))) for _ in range(TEXTS - len(texts))]
    return framework, texts


def _cases(framework: TextFramework, texts: list[str]) -> list[Case]:
    inputs = framework.tokenize(texts)
    return [Case("texts", inputs, framework.answer(inputs))]


def _graphs(
    framework: TextFramework, cases: list[Case], folder: Path, threads: int
) -> tuple[dict[str, Run], dict[str, int]]:
    """Return a function that runs each graph that this machine can make, and the graphs' sizes."""
    graph = framework.export(folder / "graph")
    runs: dict[str, Run] = {}
    sizes = {}
    for level in (FP32, *candidate_levels(graph), FP16):
        try:
            candidate = make(level, graph, cases)
        except ExportError as error:
            print(f"{level.name}: {error.message}")
            continue
        runs[level.name] = _in_runtime(level.session(candidate, threads=threads))
        sizes[level.name] = folder_bytes(candidate.file.parent)
    return runs, sizes


def _in_runtime(session: LoadedGraph) -> Run:
    return lambda inputs: session.answer(inputs)["embedding"]


def _tokens(batch: int, length: int) -> dict[str, Array]:
    ids = np.random.default_rng(batch * length).integers(1000, 28000, (batch, length), dtype=np.int64)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def _times(runs: Mapping[str, Run], inputs: Mapping[str, Array], rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each; the first round is a warm-up."""
    elapsed: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            begin = time.perf_counter()
            run(inputs)
            elapsed[name].append(time.perf_counter() - begin)
    return {name: statistics.median(seconds[1:]) * 1000 for name, seconds in elapsed.items()}


def _cosines(run: Run, framework: TextFramework, texts: list[str]) -> Array:
    """Return the cosine to torch's vector per text."""
    cosines = []
    for text in texts:
        inputs = framework.tokenize([text])
        actual, expected = run(inputs)[0], framework.answer(inputs)["embedding"][0]
        cosines.append(float(actual @ expected / np.linalg.norm(actual) / np.linalg.norm(expected)))
    return np.array(cosines)


if __name__ == "__main__":
    main()
