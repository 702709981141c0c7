"""The same verdict on every processor: exact sums of 8-bit products, and rounding to bf16."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from model_build.checking.parity import report_of
from model_build.data import ExportedGraph
from model_build.errors import ParityError
from model_build.graphs import eight_bits
from model_build.graphs.eight_bits import to_calibrated_int8, to_dynamic_int8, to_int8_for_tensorrt
from model_build.graphs.levels import INT8, Converter, rounded_session
from model_build.graphs.overflow import can_overflow
from model_build.graphs.running import GraphSession, compare_graph
from model_build.recipes.given_graph import start_session
from tests.model_build.graph_texts import save_graph
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny_graphs import answered, convolutions, perceptron, transposed
from tests.model_build.written_repositories import write_repository
from tritonstack.files.model.inputs import NEEDS_VNNI, answers_remedy

EXACT = "session.x64quantprecision"
FULL_RANGE = [to_dynamic_int8, to_calibrated_int8, to_int8_for_tensorrt]
GRAPHS = [perceptron, convolutions, transposed]


def full_range(
    convert: Converter, converted: ExportedGraph, monkeypatch: pytest.MonkeyPatch
) -> ExportedGraph:
    """Convert as other tools do by default, with weights of all 8 bits."""
    monkeypatch.setattr(eight_bits, "SEVEN_BITS", False)
    return convert(converted, converted.file.parent.parent / "full", answered(converted))


def exact_sums(session: Any) -> bool:
    try:
        return bool(session.get_session_options().get_session_config_entry(EXACT) == "1")
    except RuntimeError:  # it has no such entry
        return False


def test_graphs_are_judged_with_exact_sums_and_timed_as_served(tmp_path):
    graph = perceptron(tmp_path / "graph")
    sessions = {
        "engine's graph": GraphSession(graph.file)._session,
        "candidate": INT8.session(graph)._session,  # type: ignore[attr-defined]
        "given graph": start_session(graph.file),
    }
    assert [name for name, session in sessions.items() if not exact_sums(session)] == []
    assert not exact_sums(INT8.session(graph, threads=1)._session)  # type: ignore[attr-defined]


@pytest.mark.parametrize("convert", FULL_RANGE)
@pytest.mark.parametrize("graph", GRAPHS)
def test_exact_sessions_have_no_signed_weights_left(convert, graph, tmp_path, monkeypatch):
    """Only unsigned weights are summed in 32 bits without VNNI: ONNX Runtime must have replaced all."""
    converted = full_range(convert, graph(tmp_path / "graph"), monkeypatch)
    options = GraphSession(converted.file)._session.get_session_options()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(str(converted.file), options, providers=["CPUExecutionProvider"])
    weights = onnx.load(tmp_path / "optimized.onnx").graph.initializer
    kinds = {tensor.data_type for tensor in weights if len(tensor.dims) > 1}
    assert TensorProto.UINT8 in kinds
    assert TensorProto.INT8 not in kinds


@pytest.mark.parametrize("graph", GRAPHS)
def test_graphs_that_overflow_are_recognized(graph, tmp_path, monkeypatch):
    exported = graph(tmp_path / "graph")
    own = [to_dynamic_int8, to_calibrated_int8]
    converted = [convert(exported, tmp_path / f"own{n}", answered(exported)) for n, convert in enumerate(own)]
    assert [can_overflow(graph.file) for graph in (exported, *converted)] == [False] * 3
    monkeypatch.setattr(eight_bits, "SEVEN_BITS", False)
    wide = [
        convert(exported, tmp_path / f"wide{n}", answered(exported)) for n, convert in enumerate(FULL_RANGE)
    ]
    assert [can_overflow(graph.file) for graph in wide] == [True] * 3


def test_a_table_of_8_bits_does_not_overflow(tmp_path):
    text = """(int64[batch] x) => (float[batch, 3] y) {
        row = Gather(table, x)
        y = DequantizeLinear(row, scale)
    }"""
    save_graph(tmp_path / "model.onnx", text, table=np.full((4, 3), 127, np.int8), scale=0.1)
    assert not can_overflow(tmp_path / "model.onnx")


@pytest.mark.parametrize("target", ["cpu", "sm86-24.09"])
def test_a_given_graph_that_needs_vnni_is_unverified(target, tmp_path, monkeypatch):
    graph = perceptron(tmp_path / "graph")
    converted = full_range(to_calibrated_int8, graph, monkeypatch)
    converted.file.parent.rename(tmp_path / "weights")
    tests = [{"inputs": {"x": [0.01 * n for n in range(16)]}, "outputs": {"y": None}}]
    session = GraphSession(tmp_path / "weights/model.onnx")
    inputs = {"x": np.array([tests[0]["inputs"]["x"]], np.float32)}
    tests[0]["outputs"]["y"] = session.answer(inputs)["y"][0].tolist()  # type: ignore[index]
    model = write_supplied(tmp_path, {"kind": "onnx"}, test_inputs=tests)
    served = GraphSession(tmp_path / "weights/model.onnx", exact=False).answer(inputs)["y"]
    if target == "cpu" and not np.allclose(served, session.answer(inputs)["y"], rtol=1e-3):
        with pytest.raises(ParityError) as caught:  # this processor has no VNNI
            write_repository(model, tmp_path / "work", target)
        assert NEEDS_VNNI in caught.value.message
        assert "reduce_range=True" in str(caught.value.remedy)
        return
    repository = write_repository(model, tmp_path / "work", target)
    assert repository.unverified == ((NEEDS_VNNI,) if target == "cpu" else ())
    assert ("reduce_range=True" in answers_remedy(repository.unverified)) == (target == "cpu")


CHILD = """
import json, sys
from pathlib import Path
from model_build.graphs.openvino_session import computes_bf16
from tests.model_build.graphs.test_processors import bf16_verdicts
print(json.dumps({"native": computes_bf16(), "verdicts": bf16_verdicts(Path(sys.argv[1]))}))
"""


def bf16_verdicts(folder: Path) -> list[bool]:
    """Return whether bf16 is accepted for a usual graph, and for one whose large products cancel."""
    from tests.model_build.graphs.test_levels import settle

    usual, cancels = perceptron(folder / "usual"), perceptron(folder / "cancels")
    model = onnx.load(cancels.file)
    for tensor in model.graph.initializer:
        if tensor.name == "w2":
            array = numpy_helper.to_array(tensor).copy()
            array[1::2] = -array[::2]
            tensor.CopyFrom(numpy_helper.from_array(array, "w2"))
        if tensor.name in ("w1", "b1"):
            array = numpy_helper.to_array(tensor).copy()
            array[..., 1::2] = array[..., ::2] * 1.003
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(model, cancels.file)
    verdicts = []
    for graph in (usual, cancels):
        try:
            settle(graph, answered(graph), precision="bf16")
            verdicts.append(True)
        except ParityError:
            verdicts.append(False)
    return verdicts


def test_bf16_gets_the_same_verdict_with_and_without_its_instructions(tmp_path):
    """The variables limit the instructions that OpenVINO and its oneDNN use."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "avx2")],
        env={**os.environ, "OV_CPU_MAX_ISA": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"native": False, "verdicts": [True, False]}
    assert bf16_verdicts(tmp_path / "here") == [True, False]


def test_rounded_products_have_the_error_of_bf16(tmp_path):
    for graph in (perceptron(tmp_path / "a"), convolutions(tmp_path / "b")):
        report = report_of("graph", compare_graph(rounded_session(graph.file), answered(graph)))
        assert 1e-3 < report.max_relative_error < 1e-2
        assert [file.name for file in graph.file.parent.iterdir()] == ["model.onnx"]
