"""`precision: auto` makes the same choice again on a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from model_build.data.graphs import ExportedGraph
from model_build.graphs import precision
from model_build.graphs.candidates import LEAST_GAIN, Candidate, choose
from model_build.graphs.levels import BF16, FP32, INT8
from tests.model_build.graphs.test_levels import settle
from tests.model_build.tiny_graphs import answered, perceptron
from tritonstack.base.files import sha256_of
from tritonstack.records.manifests import TensorSpec

FLOAT = onnx.TensorProto.FLOAT
HOG = "while True: pass"
BUILDS = 10
WIDE = 512
LOOSE = {"cosine": 0.9, "absolute": 10.0}


@pytest.fixture
def busy_processes() -> Iterator[None]:
    """One busy process per core."""
    processes = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(len(os.sched_getaffinity(0)))]
    yield
    for process in processes:
        process.kill()
        process.wait()


def block(folder: Path) -> ExportedGraph:
    """Large products around a GELU: int8 is much faster."""
    random = np.random.default_rng(12)
    weights = {
        "w1": random.normal(size=(WIDE, 4 * WIDE)) / WIDE**0.5,
        "b1": random.normal(size=4 * WIDE),
        "w2": random.normal(size=(4 * WIDE, WIDE)) / (4 * WIDE) ** 0.5,
        "root": np.array(2**0.5),
        "one": np.array(1.0),
        "half": np.array(0.5),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h0"]),
        helper.make_node("Add", ["b1", "h0"], ["h"]),
        helper.make_node("Div", ["h", "root"], ["g1"]),
        helper.make_node("Erf", ["g1"], ["g2"]),
        helper.make_node("Add", ["g2", "one"], ["g3"]),
        helper.make_node("Mul", ["h", "g3"], ["g4"]),
        helper.make_node("Mul", ["g4", "half"], ["g"]),
        helper.make_node("MatMul", ["g", "w2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", FLOAT, ["batch", WIDE])],
        [helper.make_tensor_value_info("y", FLOAT, ["batch", WIDE])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    folder.mkdir(parents=True)
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "model.onnx")
    tensor = {"datatype": "FP32", "shape": (WIDE,)}
    return ExportedGraph(
        folder / "model.onnx",
        inputs=(TensorSpec(name="x", **tensor),),
        outputs=(TensorSpec(name="y", **tensor),),
    )


@pytest.mark.soak
@pytest.mark.usefixtures("busy_processes")
def test_ten_builds_under_load_write_the_same_file(tmp_path: Path) -> None:
    made = {}
    for build in range(BUILDS):
        graph = block(tmp_path / str(build) / "graph")
        servable = settle(graph, answered(graph), precision="auto", accept=LOOSE, batching={"max_batch": 16})
        made[sha256_of(servable.folder / "model.onnx")] = servable.precision
        assert {one.name for one in servable.candidates if not one.parity} == set(), "each one competes"
    assert list(made.values()) == ["int8"]


@pytest.mark.parametrize("choice", ["fp32", "bf16", "int8"])
def test_a_recorded_choice_is_reused_without_timing(
    choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untimed(*_: object, **__: object) -> None:
        raise AssertionError("the record makes timing unnecessary")

    monkeypatch.setattr(precision, "time_candidates", untimed)
    graph = perceptron(tmp_path / "graph")
    servable = settle(graph, answered(graph), precision="auto", accept=LOOSE, recorded=choice)
    (only,) = servable.candidates
    assert (only.name, only.kept) == (choice, True)
    assert only.reason.startswith("chosen by an earlier build of the same files")
    assert servable.precision == only.precision


@pytest.mark.parametrize("choice", ["int8", "a graph of another version"])
def test_record_for_other_hardware_is_replaced_by_a_new_choice(choice: str, tmp_path: Path) -> None:
    graph = perceptron(tmp_path / "graph")
    servable = settle(graph, answered(graph), precision="auto", accept={"cosine": 0.9999999}, recorded=choice)
    assert [one.name for one in servable.candidates] == ["fp32", "bf16", "int8"]
    assert servable.precision == "fp32"


@pytest.mark.parametrize(
    ("milliseconds", "chosen"),
    [
        ((10.0, 9.0, 8.0), "fp32"),
        ((10.0, 10 / LEAST_GAIN, 7.0), "bf16"),
        ((10.0, 5.0, 4.9), "bf16"),
        ((10.0, 4.9, 5.0), "bf16"),
        ((10.0, 5.0, 5.0 / LEAST_GAIN), "int8"),
        ((10.0, 9.0, 5.0), "int8"),
    ],
)
def test_nearly_equal_candidates_are_ordered_by_a_fixed_rule(
    milliseconds: tuple[float, float, float], chosen: str
) -> None:
    levels = (FP32, BF16, INT8)
    timed = [
        Candidate(level, latency_ms={"1x16": time}) for level, time in zip(levels, milliseconds, strict=True)
    ]
    assert choose(timed).level.name == chosen
