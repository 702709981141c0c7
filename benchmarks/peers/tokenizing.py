"""Measure tokenizers inside graphs against the tokenizers library, which serves texts.

    python -m benchmarks.peers.tokenizing [--rounds 9]

CPU time per text in one thread, and how many of 512 texts get other ids. onnxruntime-extensions runs as an
operator of ONNX Runtime, openvino-tokenizers in OpenVINO. All take turns in each round. Before the first run:
pip install --require-hashes --no-deps --target .tritonstack/peers -r benchmarks/peers/requirements.txt
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from benchmarks.serving.requests import texts
from model_build.exporters.text_framework import TextFramework
from model_build.sources import fetch_source
from tritonstack.base.paths import find_project
from tritonstack.base.yaml import load_document
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import TextEmbeddingRecipe

MODEL = "minilm-embedding"
TEXTS, BATCH = 512, 32
Ids = list[list[int]]
Tokenize = Callable[[Sequence[str]], Ids]


def main() -> None:
    """Measure all tokenizers and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    project = find_project(Path(__file__))
    sys.path.append(str(project.state_dir / "peers"))
    document = load_document(project.model_file(MODEL), ModelSpec)
    recipe, source = document.record.recipe, document.record.source
    if source is None or not isinstance(recipe, TextEmbeddingRecipe):
        raise SystemExit(f"{MODEL} is not a text-embedding model with a source")
    fetched = fetch_source(source, model_folder=document.file.parent, cache_dir=project.cache_dir)
    framework = TextFramework(source=fetched, recipe=recipe)
    from transformers import AutoTokenizer  # noqa: PLC0415 - the framework sets it up

    kept = AutoTokenizer.from_pretrained(fetched.folder)
    contestants: dict[str, tuple[int, Tokenize]] = {
        "tokenizers": (BATCH, library(framework.served_tokenizer())),
        "onnxruntime-extensions": (1, extensions(kept)),
        "openvino-tokenizers": (BATCH, openvino(kept)),
    }
    sentences = texts()[:TEXTS]
    times: dict[str, list[float]] = {name: [] for name in contestants}
    ids: dict[str, Ids] = {}
    for _ in range(options.rounds):
        for name, (size, tokenize) in contestants.items():
            batches = [sentences[begin : begin + size] for begin in range(0, TEXTS, size)]
            begin = time.process_time()
            ids[name] = list(chain.from_iterable(tokenize(batch) for batch in batches))
            times[name].append((time.process_time() - begin) / TEXTS * 1e6)
    table = Table("tokenizer", "texts per call", "µs of CPU time per text", "texts with other ids")
    table.title = f"{TEXTS} texts, medians of {options.rounds} rounds (lowest to highest)"
    for name, elapsed in times.items():
        other = sum(own != right for own, right in zip(ids[name], ids["tokenizers"], strict=True))
        spread = f"{statistics.median(elapsed):.0f} ({min(elapsed):.0f}–{max(elapsed):.0f})"
        table.add_row(name, str(contestants[name][0]), spread, str(other))
    Console().print(table)


def library(serialized: str) -> Tokenize:
    """Return the tokenizer that is served."""
    tokenizer = Tokenizer.from_str(serialized)
    tokenizer.no_padding()
    return lambda batch: [row.ids for row in tokenizer.encode_batch_fast(list(batch))]


def extensions(kept: Any) -> Tokenize:
    """Return the same tokenizer as a graph for ONNX Runtime; its operator takes one text per call."""
    import onnxruntime  # noqa: PLC0415 - loaded only for this contestant
    import onnxruntime_extensions  # noqa: PLC0415

    graph, _ = onnxruntime_extensions.gen_processing_models(kept, pre_kwargs={})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options)
    (name,) = (tensor.name for tensor in session.get_inputs())

    def tokenize(batch: Sequence[str]) -> Ids:
        return [session.run(["input_ids"], {name: np.array(batch)})[0].reshape(-1).tolist()]

    return tokenize


def openvino(kept: Any) -> Tokenize:
    """Return the same tokenizer as a graph for OpenVINO."""
    import openvino as ov  # noqa: PLC0415 - loaded only for this contestant
    import openvino_tokenizers  # noqa: PLC0415

    graph = openvino_tokenizers.convert_tokenizer(kept)
    compiled = ov.Core().compile_model(graph, "CPU", {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1})
    request = compiled.create_infer_request()

    def tokenize(batch: Sequence[str]) -> Ids:
        result = request.infer([np.array(batch)])
        ids, mask = result["input_ids"], result["attention_mask"]
        return [row[kept_mask.astype(bool)].tolist() for row, kept_mask in zip(ids, mask, strict=True)]

    return tokenize


if __name__ == "__main__":
    main()
