"""Conversions of graphs: the choice of `auto` on a busy machine, smoothing, and sessions in OpenVINO."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from model_build.checking.parity import report_of
from model_build.data import Case, ExportedGraph
from model_build.graphs import eight_bits, precision
from model_build.graphs.eight_bits import smooth, to_dynamic_int8
from model_build.graphs.levels import BF16, FP32, INT8
from model_build.graphs.precision import LEAST_GAIN, Candidate, choose
from model_build.graphs.running import GraphSession, compare_graph
from tests.model_build.graph_texts import save_graph
from tests.model_build.graphs.test_levels import settle
from tests.model_build.tiny_graphs import answered, perceptron, with_outliers


def smoothed(graph: ExportedGraph, folder: Path, cases: list[Case]) -> Path:
    model = onnx.load(graph.file)
    smooth(model, cases)
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def worst_cosine(graph: ExportedGraph, cases: list[Case]) -> float:
    scores = [Case(case.name, case.inputs, {"y": case.expected["y"]}) for case in cases]
    return report_of("graph", compare_graph(GraphSession(graph.file), scores)).min_cosine


def test_float_answers_stay_the_same(tmp_path):
    graph = with_outliers(tmp_path / "graph")
    cases = answered(graph)
    file = smoothed(graph, tmp_path / "made", cases)
    assert file.read_bytes() != graph.file.read_bytes()
    for case in cases:
        answer = GraphSession(file).answer(case.inputs)
        for name, expected in case.expected.items():
            np.testing.assert_allclose(answer[name], expected, rtol=1e-4, atol=1e-4)


def test_int8_answers_are_more_accurate(tmp_path, monkeypatch):
    graph = with_outliers(tmp_path / "graph")
    cases = answered(graph, batches=(1, 16))
    with_smoothing = worst_cosine(to_dynamic_int8(graph, tmp_path / "smoothed", cases), cases)
    monkeypatch.setattr(eight_bits, "smooth", lambda model, cases: None)
    without = worst_cosine(to_dynamic_int8(graph, tmp_path / "unsmoothed", cases), cases)
    assert 1 - with_smoothing < (1 - without) / 2


def test_products_of_other_values_stay_unchanged(tmp_path):
    graph = perceptron(tmp_path / "graph")
    file = smoothed(graph, tmp_path / "made", answered(graph))
    assert onnx.load(file) == onnx.load(graph.file)


def test_weights_that_other_nodes_read_stay_unchanged(tmp_path):
    graph = with_outliers(tmp_path / "graph")
    model = onnx.load(graph.file)
    model.graph.node.append(onnx.helper.make_node("Identity", ["w1"], ["copy"], name="copy"))
    smooth(model, answered(graph))
    inputs = {node.name: list(node.input) for node in model.graph.node}
    assert inputs["plain"] == ["n", "w1"]
    assert inputs["transposed"][0] == "smoothed_0"


SCRIPT = """
import os, signal, sys
from pathlib import Path
from model_build.graphs.openvino_session import OpenVinoSession

signal.signal(signal.SIGINT, signal.default_int_handler)
first, second = (OpenVinoSession(Path(sys.argv[1]), threads=1) for _ in range(2))
del first
del second
os.kill(os.getpid(), signal.SIGINT)
"""


def test_ctrl_c_is_an_interrupt_after_two_sessions(tmp_path):
    """OpenVINO replaces the thread's signal stack; of two sessions, the last one restores a freed stack."""
    file = save_graph(tmp_path / "model.onnx", "(float[batch, 4] x) => (float[batch, 4] y) { y = Relu(x) }")
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file)], stderr=subprocess.PIPE, text=True, check=False
    )
    assert ended.returncode == -signal.SIGINT, (ended.returncode, ended.stderr)
    assert ended.stderr.endswith("KeyboardInterrupt\n")


LOOSE = {"cosine": 0.9, "absolute": 10.0}


@pytest.mark.parametrize("choice", ["fp32", "bf16", "int8"])
def test_a_recorded_choice_is_reused_without_timing(choice, tmp_path, monkeypatch):
    def untimed(*_: object, **__: object) -> None:
        raise AssertionError("the record makes timing unnecessary")

    monkeypatch.setattr(precision, "time_candidates", untimed)
    graph = perceptron(tmp_path / "graph")
    servable = settle(graph, answered(graph), precision="auto", accept=LOOSE, recorded=choice)
    (only,) = servable.candidates
    assert (only.name, only.kept) == (choice, True)
    assert "earlier build" in only.reason
    assert servable.precision == only.precision


def test_record_for_other_hardware_is_replaced_by_a_new_choice(tmp_path):
    graph = perceptron(tmp_path / "graph")
    servable = settle(graph, answered(graph), precision="auto", accept={"cosine": 0.9999999}, recorded="int8")
    assert [candidate.name for candidate in servable.candidates] == ["fp32", "bf16", "int8"]
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
def test_nearly_equal_candidates_are_ordered_by_a_fixed_rule(milliseconds, chosen):
    levels = (FP32, BF16, INT8)
    timed = [
        Candidate(level, latency_ms={"1x16": time}) for level, time in zip(levels, milliseconds, strict=True)
    ]
    assert choose(timed).level.name == chosen
