"""The works that are measured: their models, requests, contestants, and goals."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from benchmarks.peers.forms import Form
from benchmarks.serving import sources
from benchmarks.serving.goals import Goal
from benchmarks.serving.load import CHECKED, Load, Reference
from benchmarks.serving.peers import Peer
from benchmarks.serving.products import Built, built
from benchmarks.serving.requests import binary_bodies, number_bodies, spread, text_bodies, texts
from model_build.exporters.texts import TextFramework
from model_build.sources import FetchedSource, fetch_source
from tritonstack.base.paths import Project
from tritonstack.files.model.recipes import TextEmbeddingRecipe

Array = NDArray[Any]
INT8_FIELDS = {"precision": "int8", "accept": {"cosine": 0.97, "relative": 0.3}}
TOKENS, PIXELS = frozenset({"input_ids", "attention_mask"}), frozenset({"pixel_values"})
"""Inputs of the graphs that the peers run."""
IMAGES, ROWS = 8, 500
FP32, INT8 = 0.9999, 0.95
"""Least cosine to the framework's answer. Graphs in int8 that scale activations per batch answer a text
differently in other company: the cosine is lower under load than alone."""


@dataclass(frozen=True)
class Product:
    """A built model, and how callers reach it."""

    made: Built
    invoke_endpoint: bool
    load: Load


@dataclass(frozen=True)
class Work:
    """Everything to measure together: contestants by name, and goals that name them."""

    name: str
    products: Mapping[str, Product]
    peers: Mapping[str, tuple[Peer, Load]]
    goals: Sequence[Goal]
    shortest_s: int = 0
    """Least length of a run; slow models answer too few requests in less."""
    single: Sequence[str] = field(default=())
    """Contestants that are also measured with one user."""
    most_users: int | None = None
    """Most connections; slow models with more only have a longer queue."""


@dataclass(frozen=True)
class Place:
    """Where a work puts its files."""

    project: Project
    folder: Path
    """For this run."""

    @property
    def kept(self) -> Path:
        """The folder of models that later runs use again."""
        return self.project.state_dir / "benchmarks"

    def build(self, model: str, name: str, changes: Mapping[str, Any]) -> Built:
        """Build a model with random weights."""
        file = sources.write_model(self.kept / "models", model)
        folder = self.folder / model
        return built(self.project, file, folder, name, changes, self.kept / "artifacts")

    def copy(self, name: str, *files: Path) -> Path:
        """Return a new folder with copies of files and of the contents of folders."""
        folder = self.folder / "peers" / name
        folder.mkdir(parents=True)
        for file in files:
            if file.is_dir():
                shutil.copytree(file, folder, dirs_exist_ok=True)
            else:
                shutil.copy(file, folder)
        return folder


SORTED = Form(workers=2, threads=1, most=32)
"""Two workers that sort their texts by length and compute groups of 8, as the product does."""
AS_THEY_ARRIVE = replace(SORTED, group=32, sort=False)
"""A queue that pads each batch to its longest text, as people usually write it."""
PLAIN = ", as they arrive"


def minilm(place: Place) -> Work:
    """Return the work with MiniLM: fp32, the default, and what `auto` chooses with a wide `accept`."""
    project = place.project
    file = project.model_file("minilm-embedding")
    fp32 = built(project, file, place.folder, "fp32", {"precision": "fp32"}, None)
    auto = built(project, file, place.folder, "auto", {**INT8_FIELDS, "precision": "auto"}, None)
    framework, source = _framework(project, fp32)
    load = _text_load(framework, FP32)
    near = _text_load(framework, INT8)
    tokenizer = _tokenizer(place, "minilm", framework)
    torch = place.copy("torch", source.folder, tokenizer)
    peers = {peer.name: (peer, load) for peer in _text("torch", torch)}
    # A peer runs graphs of tokens; if auto chose another form, the int8 graph is the closest.
    int8 = auto if _graphs(auto, TOKENS) else built(project, file, place.folder, "int8", INT8_FIELDS, None)
    for artifact, name, checked in ((fp32, "fp32", load), (int8, "int8", near)):
        files = place.copy(name, _graph(artifact, TOKENS).parent, tokenizer)
        peers |= {peer.name: (peer, checked) for peer in _text(f"{name} ONNX", files)}
    int8_port, int8_invoke = "tritonstack, int8, container port", "tritonstack, int8, InvokeEndpoint"
    fp32_port = "tritonstack, fp32, container port"
    return Work(
        "minilm",
        {"fp32": Product(fp32, False, load), "int8": Product(auto, True, near)},
        peers,
        (
            *(
                goal
                for queue in ("", PLAIN)
                for goal in (
                    Goal(int8_port, f"FastAPI, torch{queue}", throughput=7.5),
                    Goal(int8_port, f"FastAPI, int8 ONNX{queue}", throughput=1.5, p99=0.75),
                    Goal(int8_invoke, f"FastAPI, torch{queue}", throughput=6.5),
                    Goal(int8_invoke, f"FastAPI, int8 ONNX{queue}", throughput=1.3),
                    Goal(fp32_port, f"FastAPI, fp32 ONNX{queue}", throughput=1.3, p99=0.75),
                )
            ),
            Goal(int8_port, "FastAPI, torch", p50=1 / 3, users=1),
        ),
        single=("FastAPI, torch", int8_port),
    )


def roberta(place: Place) -> Work:
    """Return the work with an encoder of RoBERTa-base's size: TorchScript, and int8 in ONNX Runtime."""
    script = place.build("roberta", "TorchScript", {"recipe": _recipe("roberta", format="torchscript")})
    int8 = place.build("roberta", "int8", INT8_FIELDS)
    framework, source = _framework(place.project, script)
    load, near = _text_load(framework, FP32), _text_load(framework, INT8)
    folder = place.copy("roberta", source.folder, _tokenizer(place, "roberta", framework))
    # A run counts no requests of unfinished batches: batches of a slow model must be short.
    peers = [replace(peer, form=replace(peer.form, most=16)) for peer in _text("torch", folder)]
    return Work(
        "roberta",
        {"TorchScript": Product(script, False, load), "int8": Product(int8, False, near)},
        {peer.name: (peer, load) for peer in peers},
        tuple(
            goal
            for peer in peers
            for goal in (
                Goal("tritonstack, TorchScript, container port", peer.name, throughput=1.5),
                Goal("tritonstack, int8, container port", peer.name, throughput=5),
            )
        ),
        shortest_s=16,
    )


def resnet(place: Place) -> Work:
    """Return the work with ResNet-50 in ONNX Runtime; requests are binary tensors."""
    built = place.build("resnet", "fp32", {})
    rows = sources.pixels(IMAGES)
    bodies = binary_bodies("pixel_values", rows)
    load = Load(bodies, Reference(_resnet_answers(place, rows[spread(bodies, CHECKED)]), FP32))
    peer = Peer(
        "FastAPI, onnxruntime",
        "image-onnx",
        place.copy("resnet", _graph(built, PIXELS).parent),
        Form(workers=2, threads=1, group=1, most=2),
    )
    work = _one_runtime("resnet", built, load, peer, invoke_endpoint=False)
    return replace(work, shortest_s=8, most_users=32)


def xgboost(place: Place) -> Work:
    """Return the work with trees; requests are JSON."""
    from xgboost import Booster, DMatrix  # noqa: PLC0415 - only this work needs it

    built = place.build("xgboost", "fp32", {})
    rows = sources.features(ROWS)
    bodies = number_bodies("input__0", rows)
    weights = place.kept / "models" / "xgboost" / "weights"
    checked = rows[spread(bodies, CHECKED)]
    positive = Booster(model_file=weights / "model.json").predict(DMatrix(checked))
    reference = Reference(np.stack([1 - positive, positive], axis=1), FP32, absolute=1e-4)
    peer = Peer(
        "FastAPI, xgboost",
        "trees-xgboost",
        weights,
        Form(servers=2, workers=0),
    )
    return _one_runtime("xgboost", built, Load(bodies, reference), peer, invoke_endpoint=True)


WORKS: dict[str, Callable[[Place], Work]] = {
    "minilm": minilm,
    "roberta": roberta,
    "resnet": resnet,
    "xgboost": xgboost,
}


def _one_runtime(name: str, built: Built, load: Load, peer: Peer, *, invoke_endpoint: bool) -> Work:
    """Return a work with one model, and one peer with the same runtime."""
    goal = Goal("tritonstack, fp32, container port", peer.name, throughput=1.0)
    return Work(name, {"fp32": Product(built, invoke_endpoint, load)}, {peer.name: (peer, load)}, (goal,))


def _text(name: str, folder: Path) -> Iterator[Peer]:
    """Yield the peer that sorts texts by length as the product does, and the one with a plain queue."""
    engine = "text-torch" if name == "torch" else "text-onnx"
    # Worker processes, because threads of PyTorch wait for each other.
    for queue, form in (("", SORTED), (PLAIN, AS_THEY_ARRIVE)):
        yield Peer(f"FastAPI, {name}{queue}", engine, folder, replace(form, isolated=name == "torch"))


def _recipe(model: str, **changes: str) -> dict[str, Any]:
    return {**sources.MODELS[model][1]["recipe"], **changes}


def _graphs(built: Built, inputs: Collection[str]) -> list[Path]:
    """Return the ONNX graphs of an artifact that have exactly these inputs."""
    files = built.files("*.onnx")
    graphs = ((file, onnx.load(file, load_external_data=False).graph) for file in files)
    return [file for file, graph in graphs if {node.name for node in graph.input} == set(inputs)]


def _graph(built: Built, inputs: Collection[str]) -> Path:
    """Return the only such graph."""
    graphs = _graphs(built, inputs)
    if len(graphs) != 1:
        raise RuntimeError(f"{built.name}: expected 1 graph of {', '.join(inputs)}, got {len(graphs)}")
    return graphs[0]


def _framework(project: Project, built: Built) -> tuple[TextFramework, FetchedSource]:
    """Load the framework's model."""
    spec = built.model.record
    if not isinstance(spec.recipe, TextEmbeddingRecipe) or spec.source is None:
        raise TypeError(f"{spec.name}: not a text-embedding model with a source")
    source = fetch_source(spec.source, model_folder=built.model.file.parent, cache_dir=project.cache_dir)
    return TextFramework(source=source, recipe=spec.recipe), source


def _text_load(framework: TextFramework, cosine: float) -> Load:
    items = texts()
    bodies = text_bodies(items)
    checked = [items[place] for place in spread(bodies, CHECKED)]
    answers = [framework.answer(framework.tokenize([text]))["embedding"][0] for text in checked]
    return Load(bodies, Reference(np.stack(answers), cosine))


def _tokenizer(place: Place, name: str, framework: TextFramework) -> Path:
    """Write the tokenizer that Triton serves."""
    folder = place.folder / "tokenizers" / name
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(framework.served_tokenizer(), encoding="utf-8")
    return folder / "tokenizer.json"


def _resnet_answers(place: Place, rows: Array) -> Array:
    import torch  # noqa: PLC0415 - only this work needs them
    from transformers import AutoModelForImageClassification  # noqa: PLC0415

    weights = place.kept / "models" / "resnet" / "weights"
    model = AutoModelForImageClassification.from_pretrained(weights).eval()
    with torch.inference_mode():
        answers: Array = model(torch.from_numpy(rows)).logits.numpy()
    return answers
