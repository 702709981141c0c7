"""Precision levels: candidates of a graph, the choice among them, and its report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from model_build.checking.parity import report_of
from model_build.data import Case, ExportedGraph, ServableGraph
from model_build.errors import ExportError, ParityError
from model_build.graphs import eight_bits, levels, onnx_files, precision
from model_build.graphs.eight_bits import to_calibrated_int8, to_dynamic_int8, to_int8_for_tensorrt
from model_build.graphs.levels import FP32, INT8, steps_out_of_range, to_fp16
from model_build.graphs.onnx_files import make_readable
from model_build.graphs.precision import Candidate, choose, choose_precision, report
from model_build.graphs.running import GraphSession, compare_graph
from model_build.progress import BuildSteps, ignore_progress
from tests.model_build.tiny_graphs import answered, convolutions, lookup, normalized, perceptron, transposed
from tritonstack.facts.targets import parse_target
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.manifests import CandidateReport

CPU = parse_target("cpu")
GPU = parse_target("sm86-24.09")


@pytest.fixture
def graph(tmp_path: Path) -> ExportedGraph:
    return perceptron(tmp_path / "graph")


def settle(
    graph: ExportedGraph,
    cases: list[Case],
    target: str = "cpu",
    recorded: str | None = None,
    **more: Any,
) -> ServableGraph:
    facts: dict[str, Any] = {
        "name": "tiny",
        "description": "Tiny.",
        "source": "file://weights",
        "recipe": {"kind": "onnx"},
        "batching": {"max_batch": 4},
        "test_inputs": [{"random": {}}],
    }
    return choose_precision(
        graph,
        cases=cases,
        spec=ModelSpec.model_validate_json(json.dumps(facts | more)),
        target=parse_target(target),
        steps=BuildSteps(ignore_progress),
        recorded=recorded,
    )


def candidate_of(servable: ServableGraph, name: str) -> CandidateReport:
    (candidate,) = (candidate for candidate in servable.candidates if candidate.name == name)
    return candidate


def operators(graph: ExportedGraph | ServableGraph) -> set[str]:
    file = graph.file if isinstance(graph, ExportedGraph) else graph.folder / "model.onnx"
    return {node.op_type for node in onnx.load(file).graph.node}


def test_fp32_is_the_exported_file_byte_for_byte(graph):
    before = graph.file.read_bytes()
    servable = settle(graph, answered(graph))
    assert servable.folder == graph.file.parent
    assert [file.name for file in servable.folder.iterdir()] == ["model.onnx"]
    assert graph.file.read_bytes() == before
    assert (servable.precision, servable.candidates) == ("fp32", ())


@pytest.mark.parametrize("convert", [to_dynamic_int8, to_fp16])
def test_the_same_graph_gives_the_same_bytes(convert, tmp_path):
    for place in ("a", "elsewhere"):
        graph = perceptron(tmp_path / place / "graph")
        convert(graph, tmp_path / place / "made", answered(graph))
    files = [tmp_path / place / "made" for place in ("a", "elsewhere")]
    assert [file.name for file in files[0].iterdir()] == ["model.onnx"]
    assert (files[0] / "model.onnx").read_bytes() == (files[1] / "model.onnx").read_bytes()
    assert str(tmp_path).encode() not in (files[0] / "model.onnx").read_bytes()


def test_int8_graph_is_shared_and_reproducible(graph):
    servable = settle(graph, answered(graph), precision="int8")
    assert servable.precision == "int8"
    assert {"MatMulInteger", "BiasGelu"} <= operators(servable)
    assert not {"MatMul", "Erf"} & operators(servable)
    (only,) = servable.candidates
    assert (only.name, only.kept) == ("int8", True)
    assert only.reason.startswith("model.yaml")
    assert servable.parity.min_cosine < 1
    assert servable.inputs == graph.inputs


def test_integers_have_a_scale_for_each_channel_and_seven_bits(graph, tmp_path):
    converted = to_dynamic_int8(graph, tmp_path / "made", answered(graph))
    model = onnx.load(converted.file)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    (scale,) = (array for name, array in weights.items() if "w1" in name and name.endswith("scale"))
    (quantised,) = (array for name, array in weights.items() if name.endswith("w1_quantized"))
    assert scale.shape == (128,)
    assert quantised.dtype == np.int8
    assert np.abs(quantised.astype(int)).max() <= 64
    assert model.ir_version == 8, "every release reads it"
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 18, "com.microsoft": 1}
    assert make_readable(converted, CPU) is converted


def test_a_graph_newer_than_a_release_is_rejected(tmp_path):
    newer = normalized(tmp_path / "graph", kind="Gelu", opset=20)
    assert make_readable(newer, parse_target("sm86-25.04")) is newer
    with pytest.raises(ExportError, match=r"Gelu of opset 20; .* 1\.16\.3") as caught:
        settle(newer, answered(newer))
    assert "opset 19" in str(caught.value.remedy)


def test_a_newer_opset_with_old_operators_is_lowered(tmp_path):
    graph = perceptron(tmp_path / "graph", opset=20)
    assert make_readable(graph, GPU) is graph
    servable = settle(graph, answered(graph))
    assert onnx.load(servable.folder / "model.onnx").opset_import[0].version == 19
    assert onnx.load(graph.file).opset_import[0].version == 20
    assert servable.parity.max_absolute_error == 0


def test_newer_file_format_is_rewritten_if_lossless(graph):
    model = onnx.load(graph.file)
    model.ir_version = 11
    onnx.save(model, graph.file)
    servable = settle(graph, answered(graph))
    assert onnx.load(servable.folder / "model.onnx").ir_version == 9
    assert onnx.load(graph.file).ir_version == 11
    model.graph.initializer[0].data_type = onnx.TensorProto.FLOAT8E4M3FN
    onnx.save(model, graph.file)
    with pytest.raises(ExportError, match=r"file format 11; .* 23\.12"):
        make_readable(graph, CPU)


def test_convolutions_are_calibrated(tmp_path):
    graph = convolutions(tmp_path / "graph")
    cases = answered(graph)
    servable = settle(graph, cases, precision="int8")
    assert "QuantizeLinear" in operators(servable)
    assert servable.parity.min_cosine > 0.99
    other = to_calibrated_int8(graph, tmp_path / "again", cases)
    assert other.file.read_bytes() == (servable.folder / "model.onnx").read_bytes()


def without_openvino_operator(folder: Path) -> ExportedGraph:
    graph = perceptron(folder)
    model = onnx.load(graph.file)
    model.graph.node[-1].op_type, model.graph.node[-1].domain = "NoSuchProduct", "com.example"
    model.opset_import.add(domain="com.example", version=1)
    onnx.save(model, graph.file)
    return graph


INT8_ONLY, BF16_ONLY = {"precision": "int8"}, {"precision": "bf16"}
LABELS = {"tensors": {"y": {"labels": [f"label {n}" for n in range(16)]}}}
REJECTED: list[tuple[Any, str, dict[str, Any], type[Exception], str]] = [
    (lookup, "cpu", INT8_ONLY, ExportError, "nothing to quantize"),
    (perceptron, "cpu", {**INT8_ONLY, "accept": {"cosine": 0.9999999}}, ParityError, ">= 0.9999999"),
    (perceptron, "cpu", {**BF16_ONLY, "accept": {"absolute": 1e-9}}, ParityError, "<= 1e-09"),
    (without_openvino_operator, "cpu", BF16_ONLY, ExportError, "NoSuchProduct"),
    (perceptron, "sm86-24.09", BF16_ONLY, ExportError, "CPUs"),
    (perceptron, "cpu", {**BF16_ONLY, **LABELS}, ExportError, "labels"),
]


@pytest.mark.parametrize(("save", "target", "more", "error", "value"), REJECTED)
def test_precisions_that_are_rejected(tmp_path, save, target, more, error, value):
    cases = answered((perceptron if save is without_openvino_operator else save)(tmp_path / "right"))
    with pytest.raises(error) as caught:
        settle(save(tmp_path / "graph"), cases, target, **more)
    assert value in str(caught.value)


def test_auto_keeps_one_and_reports_all(graph):
    servable = settle(graph, answered(graph), precision="auto")
    names = [candidate.name for candidate in servable.candidates]
    assert names == ["fp32", "bf16", "int8"]
    (chosen,) = (candidate for candidate in servable.candidates if candidate.kept)
    assert chosen.precision == servable.precision
    timed = [candidate for candidate in servable.candidates if candidate.size_bytes]
    assert all(set(candidate.latency_ms) == {"1x16", "4x16"} for candidate in timed)
    assert all(candidate.reason for candidate in servable.candidates)


def test_bf16_is_the_exported_graph_in_openvino(graph):
    before = graph.file.read_bytes()
    servable = settle(graph, answered(graph), precision="bf16")
    assert (servable.backend, servable.precision) == ("openvino", "bf16")
    assert servable.parameters == {"HINT_BF16": "YES"}
    assert (servable.folder / "model.onnx").read_bytes() == before
    assert servable.parity.min_cosine > 0.9999
    assert [candidate.kept for candidate in servable.candidates] == [True]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"batching": {"max_batch": 4, "queue_delay_us": 9}}, "combines no requests"),
        ({"triton": {"parameters": {"intra_op_thread_count": "1"}}}, "ONNX Runtime backend"),
        (LABELS, "y has labels"),
    ],
)
def test_auto_does_not_try_bf16_with_settings_that_openvino_lacks(settings, reason, graph):
    servable = settle(graph, answered(graph), precision="auto", **settings)
    bf16 = candidate_of(servable, "bf16")
    assert bf16.reason.startswith("not tried: ")
    assert reason in bf16.reason
    assert not bf16.latency_ms


def test_auto_serves_bf16_if_it_is_the_fastest(graph, monkeypatch):
    times = {"fp32": 10.0, "bf16": 5.0, "int8": 20.0}

    def timed(sessions: dict[str, Any], *_: Any, **__: Any) -> dict[str, dict[str, float]]:
        return {name: {"1x16": times[name]} for name in sessions}

    monkeypatch.setattr(precision, "time_graphs", timed)
    monkeypatch.setattr(precision, "computes_bf16", lambda: True)  # else it is not tried
    servable = settle(graph, answered(graph), precision="auto")
    assert (servable.backend, servable.precision) == ("openvino", "bf16")
    assert servable.parameters == {"HINT_BF16": "YES"}
    (chosen,) = (candidate for candidate in servable.candidates if candidate.kept)
    assert (chosen.name, chosen.latency_ms) == ("bf16", {"1x16": 5.0})


def test_openvino_is_timed_row_by_row_because_triton_does_not_combine_its_requests(graph):
    session = levels.BF16.session(graph, threads=1)
    runs: list[int] = []
    answer = session.answer
    session.answer = lambda inputs: runs.append(len(inputs["x"])) or answer(inputs)  # type: ignore[method-assign]
    session.run({"x": np.zeros((3, 16), np.float32)})
    assert runs == [1, 1, 1]
    whole = levels.BF16.session(replace(graph, batches=False), threads=1)
    whole.answer = lambda inputs: runs.append(len(inputs["x"]))  # type: ignore[method-assign]
    whole.run({"x": np.zeros((3, 16), np.float32)})
    assert runs[3:] == [3]


def test_auto_tries_nothing_after_its_budget(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "AUTO_BUDGET_S", 0.0)
    monkeypatch.setattr(precision, "computes_bf16", lambda: True)  # else bf16 is not tried
    servable = settle(graph, answered(graph), precision="auto")
    assert servable.precision == "fp32"
    assert "the budget of 0 s" in candidate_of(servable, "int8").reason
    monkeypatch.setattr(precision, "AUTO_BUDGET_S", 300.0)
    again = settle(perceptron(tmp_path / "again"), answered(graph), precision="auto")
    assert all("not tried" not in candidate.reason for candidate in again.candidates)


def test_auto_keeps_fp32_if_no_other_precision_is_accurate(graph):
    servable = settle(graph, answered(graph), precision="auto", accept={"cosine": 0.9999999})
    assert servable.precision == "fp32"
    reason = candidate_of(servable, "int8").reason
    assert "4 of 4 outputs; worst: y" in reason
    assert "tolerance >= 0.9999999" in reason
    assert servable.folder == graph.file.parent


def fails(*_: object) -> ExportedGraph:
    raise KeyError("a shape")


def returns_nan(graph: ExportedGraph, folder: Path, cases: object) -> ExportedGraph:
    return perceptron(folder, scale=float("nan"))


@pytest.mark.parametrize(("convert", "value"), [(fails, "KeyError: 'a shape'"), (returns_nan, "NaN")])
def test_failed_conversion_is_reported_as_a_reason(graph, monkeypatch, convert, value):
    monkeypatch.setattr(levels, "INT8", replace(INT8, convert=convert))
    servable = settle(graph, answered(graph), precision="auto")
    candidate = candidate_of(servable, "int8")
    assert value in candidate.reason
    assert not candidate.kept
    assert CandidateReport.model_validate_json(candidate.model_dump_json()) == candidate


def test_fastest_correct_candidate_over_all_shapes_is_chosen(graph):
    parity = report_of("graph", compare_graph(GraphSession(graph.file), answered(graph)))
    base = Candidate(FP32, graph, parity, None, {"a": 4.0, "b": 100.0})
    quick = Candidate(INT8, graph, parity, None, {"a": 3.0, "b": 40.0})
    quicker = Candidate(replace(INT8, name="fused"), graph, parity, None, {"a": 1.0, "b": 50.0})
    assert choose([base, quick, quicker]) is quicker
    assert choose([base, quick, replace(quicker, violation="wrong")]) is quick
    assert report(quick, [base, quick, quicker]).reason.startswith("1.83 times")


def test_fp16_keeps_the_types_of_inputs_and_outputs(graph):
    servable = settle(graph, answered(graph), "sm86-24.09", precision="fp16")
    model = onnx.load(servable.folder / "model.onnx")
    weights = {tensor.data_type for tensor in model.graph.initializer}
    assert weights == {onnx.TensorProto.FLOAT16}
    ends = (*model.graph.input, *model.graph.output)
    assert {value.type.tensor_type.elem_type for value in ends} == {onnx.TensorProto.FLOAT}
    assert (servable.inputs, servable.outputs) == (graph.inputs, graph.outputs)


def test_values_that_overflow_fp16_stay_in_fp32(tmp_path):
    graph = perceptron(tmp_path / "graph", scale=30_000.0)
    cases = answered(graph)
    assert {"first", "bias", "second"} <= set(steps_out_of_range(graph.file, cases))
    assert steps_out_of_range(perceptron(tmp_path / "small").file, cases) == []
    servable = settle(graph, cases, "sm86-24.09", precision="fp16")
    assert servable.parity.min_cosine > 0.999
    assert [file.name for file in graph.file.parent.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize(
    "accept",
    [
        {},
        {"cosine": 0.98},
        {"relative": 0.01},
        {"outputs": {"y": {"cosine": 0.9}}},
    ],
)
def test_auto_rejects_errors_above_the_tolerance(graph, accept, monkeypatch):
    """All answers of the graph are 4.5 % too small; its cosine is 1."""

    def shrunk(graph: ExportedGraph, folder: Path, cases: object) -> ExportedGraph:
        folder.mkdir()
        model = onnx.load(graph.file)
        for tensor in model.graph.initializer:
            if tensor.name == "w2":
                array = onnx.numpy_helper.to_array(tensor) * np.float32(0.955)
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, "w2"))
        onnx.save(model, folder / "model.onnx")
        return replace(graph, file=folder / "model.onnx")

    monkeypatch.setattr(levels, "INT8", replace(INT8, convert=shrunk))
    servable = settle(graph, answered(graph), precision="auto", accept=accept)
    candidate = candidate_of(servable, "int8")
    assert candidate.parity is not None
    assert candidate.parity.min_cosine > 0.9999
    assert "relative 4." in candidate.reason
    assert "tolerance <= 0.0" in candidate.reason


@pytest.mark.parametrize("convert", [to_dynamic_int8, to_int8_for_tensorrt])
def test_transposed_weights(convert, tmp_path):
    """As PyTorch's layers store them, and exporters note their shapes."""
    graph = transposed(tmp_path / "graph")
    cases = answered(graph)
    converted = convert(graph, tmp_path / "made", cases)
    assert "Gemm" not in operators(converted) or "DequantizeLinear" in operators(converted)
    assert report_of("graph", compare_graph(GraphSession(converted.file), cases)).min_cosine > 0.99


CONVERTERS = [to_dynamic_int8, to_fp16, to_int8_for_tensorrt]


def encoder_cases(graph: ExportedGraph, shapes: list[tuple[int, int]]) -> list[Case]:
    session = GraphSession(graph.file)
    random = np.random.default_rng(8)
    cases = []
    for shape in shapes:
        ids = random.integers(0, 100, shape)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        cases.append(Case(f"{shape}", inputs, session.answer(inputs)))
    return cases


@pytest.mark.parametrize("convert", CONVERTERS)
def test_encoder_accepts_any_batch_and_length_at_every_level(convert, tiny_graph, tmp_path):
    converted = convert(tiny_graph, tmp_path / "made", encoder_cases(tiny_graph, [(2, 9)]))
    others = encoder_cases(tiny_graph, [(1, 1), (4, 24), (3, 5)])
    report = report_of("graph", compare_graph(GraphSession(converted.file), others))
    assert 0.97 < report.min_cosine < 1
    assert [file.name for file in tiny_graph.file.parent.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize("convert", CONVERTERS)
def test_weights_too_large_for_protobuf_are_stored_as_external_data(convert, tmp_path, monkeypatch):
    small = perceptron(tmp_path / "small")
    graph = replace(small, file=tmp_path / "graph" / "model.onnx")
    graph.file.parent.mkdir()
    onnx.save(
        onnx.load(small.file), graph.file, save_as_external_data=True, location="weights", size_threshold=0
    )
    monkeypatch.setattr(onnx_files, "INLINE_LIMIT", 100)
    monkeypatch.setattr(eight_bits, "INLINE_LIMIT", 100)
    cases = answered(graph)
    converted = convert(graph, tmp_path / "made", cases)
    assert sorted(file.name for file in converted.file.parent.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert report_of("graph", compare_graph(GraphSession(converted.file), cases)).min_cosine > 0.97
    assert sorted(file.name for file in graph.file.parent.iterdir()) == ["model.onnx", "weights"]


@pytest.mark.parametrize("convert", CONVERTERS)
def test_steps_need_no_names(graph, convert, tmp_path):
    model = onnx.load(graph.file)
    for node in model.graph.node:
        node.ClearField("name")
    onnx.save(model, graph.file)
    cases = answered(graph)
    converted = convert(graph, tmp_path / "made", cases)
    assert 0.97 < report_of("graph", compare_graph(GraphSession(converted.file), cases)).min_cosine < 1
