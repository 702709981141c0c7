"""Repositories of tiny models, for tests of their content."""

from pathlib import Path
from typing import Any

import yaml

from model_build.data import ServableGraph
from model_build.repository.config import read_config
from model_build.repository.parts import ModelProperties, add_graph_model, add_python_model
from tritonstack.base.yaml import Document, load_document
from tritonstack.facts.targets import parse_target
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.manifests import ParityReport, TensorSpec

IDS = TensorSpec(name="ids", datatype="INT64", shape=(-1,))
MASK = TensorSpec(name="mask", datatype="INT64", shape=(-1,))
SCORES = TensorSpec(name="scores", datatype="FP32", shape=(2,), labels=("no", "yes"))
PARITY = ParityReport(stage="graph", cases=1, min_cosine=1.0, max_absolute_error=0.0)


def a_model(folder: Path, *, recipe: str = "{kind: onnx}", **blocks: Any) -> Document[ModelSpec]:
    """Return a model.yaml with the given blocks, each on one line below the recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = yaml.safe_load(recipe)["kind"]
    takes = {"text-embedding": "[a text]", "vllm": "[a text]"}.get(kind, "[{random: {}}]")
    lines = ["name: scorer", "description: Scores.", "source: file://weights", f"recipe: {recipe}"]
    if kind == "ensemble":
        lines.remove("source: file://weights")
    lines += [f"{name}: {value}" for name, value in blocks.items()]
    file = folder / "model.yaml"
    file.write_text("\n".join([*lines, f"test_inputs: {takes}"]) + "\n")
    return load_document(file, ModelSpec)


def a_graph(folder: Path, **changes: Any) -> ServableGraph:
    """Return a chosen graph whose file no runtime could read."""
    folder.mkdir(parents=True)
    names = {
        "onnxruntime": "model.onnx",
        "openvino": "model.onnx",
        "tensorrt": "model.plan",
        "pytorch": "model.pt",
    }
    facts: dict[str, Any] = {
        "backend": "onnxruntime",
        "precision": "fp32",
        "inputs": (IDS, MASK),
        "outputs": (SCORES,),
        "parity": PARITY,
        **changes,
    }
    (folder / names.get(facts["backend"], "model.bin")).write_bytes(b"graph")
    return ServableGraph(folder=folder, **facts)


def graph_config(
    tmp_path: Path, *, target: str = "cpu", graph: dict[str, Any] | None = None, **blocks: Any
) -> Any:
    """Return the configuration of a graph model with these blocks in model.yaml."""
    model = a_model(tmp_path / "model", **blocks)
    spec = model.record
    add_graph_model(
        tmp_path / "repository",
        name=spec.name,
        graph=a_graph(tmp_path / "graph", **(graph or {})),
        batching=spec.batching,
        triton=spec.triton,
        target=parse_target(target),
        properties=ModelProperties(model=model),
    )
    return read_config(tmp_path / "repository" / spec.name / "config.pbtxt")


def python_config(tmp_path: Path, inputs: tuple[TensorSpec, ...] = (IDS, MASK), **blocks: Any) -> Any:
    """Return the configuration of a Python model with these blocks in model.yaml."""
    model = a_model(tmp_path / "model", recipe="{kind: python}", **blocks)
    code = tmp_path / "model.py"
    code.write_text("")
    add_python_model(
        tmp_path / "repository",
        name="scorer",
        code=code,
        inputs=inputs,
        outputs=(SCORES,),
        batching=model.record.batching,
        triton=model.record.triton,
        target=parse_target("cpu"),
        properties=ModelProperties(model=model),
    )
    return read_config(tmp_path / "repository/scorer/config.pbtxt")
