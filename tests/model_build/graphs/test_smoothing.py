"""Smoothing: the same float answers, and more accurate int8 answers."""

from pathlib import Path

import numpy as np
import onnx

from model_build.checking.parity import report_of
from model_build.data import Case, ExportedGraph
from model_build.graphs import eight_bits
from model_build.graphs.eight_bits import smooth, to_dynamic_int8
from model_build.graphs.running import GraphSession, compare_graph
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
