"""Every option of `batching` and `triton`, as written to config.pbtxt."""

from typing import Any

import pytest
from google.protobuf import text_format

from model_build.repository.config import model_config, read_config, remove_batching
from model_build.repository.parts import add_ensemble, add_graph_model
from tests.model_build.repository.tiny_repositories import (
    IDS,
    MASK,
    SCORES,
    a_graph,
    a_model,
    graph_config,
    python_config,
)
from tritonstack.base.errors import InvalidFilesError
from tritonstack.facts.targets import Target
from tritonstack.files.records.manifests import TensorSpec

TENSORRT = "{kind: onnx, format: tensorrt}"


def same(message: Any, text: str) -> None:
    """Assert that the message equals this text."""
    assert message == text_format.Parse(text, type(message)())


def test_openvino_has_no_batch_dimension(tmp_path):
    graph = {"backend": "openvino", "precision": "bf16", "parameters": {"HINT_BF16": "YES"}}
    config = graph_config(tmp_path, graph=graph, batching="{max_batch: 8}", triton="{warm_up: true}")
    assert (config.backend, config.default_model_filename) == ("openvino", "model.onnx")
    assert config.max_batch_size == 0
    assert [list(tensor.dims) for tensor in config.input] == [[-1, *IDS.shape], [-1, *MASK.shape]]
    assert list(config.output[0].dims) == [-1, *SCORES.shape]
    assert [group.count for group in config.instance_group] == [1]
    assert config.parameters["HINT_BF16"].string_value == "YES"
    same(config.dynamic_batching, "")
    (sample,) = config.model_warmup
    assert {tuple(inputs.dims) for inputs in sample.inputs.values()} == {(1, 1)}


def test_one_value_per_row_keeps_its_shape_without_a_batch_dimension():
    number = TensorSpec(name="best", datatype="INT64", shape=())
    config = model_config(name="m", inputs=[IDS], outputs=[number], max_batch=8)
    remove_batching(config)
    assert list(config.output[0].dims) == [-1, 1]
    assert list(config.output[0].reshape.shape) == [-1]


@pytest.mark.parametrize(
    ("batching", "expected"),
    [
        ("{}", "{}"),
        ("{max_batch: 8, queue_delay_us: 50}", "{max_queue_delay_microseconds: 50}"),
        ("{max_batch: 8, preferred_sizes: [8, 4]}", "{preferred_batch_size: [4, 8]}"),
        ("{keep_order: true}", "{preserve_ordering: true}"),
        ("{priorities: {levels: 3, default: 2}}", "{priority_levels: 3 default_priority_level: 2}"),
        (
            "{queue: {timeout_us: 900, on_timeout: delay, max_waiting: 7}}",
            "{default_queue_policy {timeout_action: DELAY default_timeout_microseconds: 900 "
            "max_queue_size: 7}}",
        ),
        ("{queue: {max_waiting: 7}}", "{default_queue_policy {max_queue_size: 7}}"),
    ],
)
def test_the_dynamic_batcher(tmp_path, batching, expected):
    config = graph_config(tmp_path, batching=batching)
    assert config.WhichOneof("scheduling_choice") == "dynamic_batching"
    same(config.dynamic_batching, expected[1:-1])


@pytest.mark.parametrize("batching", ["{}", "{queue: {}}"])
def test_a_queue_has_no_limits_by_default(tmp_path, batching):
    """A limit disables prefetching, and idle instances then wait for the next request."""
    config = graph_config(tmp_path, batching=batching)
    assert not config.dynamic_batching.HasField("default_queue_policy")


@pytest.mark.parametrize(
    ("batching", "scheduler", "max_batch"),
    [
        ("{dynamic: false}", None, 32),
        ("{max_batch: 0}", "dynamic_batching", 0),
        ("{max_batch: 0, dynamic: false}", None, 0),
        ("{max_batch: 0, queue: {max_waiting: 7}}", "dynamic_batching", 0),
    ],
)
def test_batching_can_be_disabled_and_a_queue_needs_no_batch(tmp_path, batching, scheduler, max_batch):
    config = graph_config(tmp_path, batching=batching, graph={"batches": max_batch > 0})
    assert (config.WhichOneof("scheduling_choice"), config.max_batch_size) == (scheduler, max_batch)


@pytest.mark.parametrize(
    ("target", "instances", "expected"),
    [
        ("cpu", "", ["count: 2 kind: KIND_CPU"]),
        ("cpu", "instances: [{count: 1}]", ["count: 1 kind: KIND_CPU"]),
        ("sm86-24.09", "", ["count: 1 kind: KIND_GPU"]),
        ("cpu", "instances: [{count: 4}]", ["count: 4 kind: KIND_CPU"]),
        (
            "sm86-24.09",
            "instances: [{count: 2, gpus: [0, 1]}, {device: cpu}]",
            ["count: 2 kind: KIND_GPU gpus: [0, 1]", "count: 1 kind: KIND_CPU"],
        ),
    ],
)
def test_instance_groups_per_target(tmp_path, target, instances, expected):
    config = graph_config(tmp_path, target=target, triton=f"{{{instances}}}")
    assert len(config.instance_group) == len(expected)
    for group, text in zip(config.instance_group, expected, strict=True):
        same(group, text)


def test_profiles_of_an_engine(tmp_path):
    config = graph_config(
        tmp_path,
        recipe=TENSORRT,
        target="sm86-24.09",
        tensorrt="{profiles: [{}, {}]}",
        triton='{instances: [{profiles: ["0"]}, {profiles: ["1"]}], optimization: {cuda_graphs: true}}',
        graph={"backend": "tensorrt", "profiles": 2, "engines": {"8.6": "model-86.plan"}},
    )
    assert [list(group.profile) for group in config.instance_group] == [["0"], ["1"]]
    assert dict(config.cc_model_filenames) == {"8.6": "model-86.plan"}
    assert config.optimization.cuda.graphs


@pytest.mark.parametrize(
    ("datatype", "expected"),
    [
        ("INT32", "int32_false_true: [0, 1]"),
        ("FP32", "fp32_false_true: [0, 1]"),
        ("BOOL", "bool_false_true: [false, true]"),
    ],
)
def test_sequence_controls_have_the_types_of_the_model(tmp_path, datatype, expected):
    start = TensorSpec(name="first", datatype=datatype, shape=(1,))
    number = TensorSpec(name="which", datatype="UINT64", shape=(1,))
    config = python_config(
        tmp_path,
        inputs=(IDS, start, number),
        triton="{sequences: {start: first, correlation_id: which, max_idle_us: 5000000}}",
        batching="{queue_delay_us: 20}",
    )
    same(
        config.sequence_batching,
        "max_sequence_idle_microseconds: 5000000 direct { max_queue_delay_microseconds: 20 } "
        f'control_input {{ name: "first" control {{ kind: CONTROL_SEQUENCE_START {expected} }} }} '
        'control_input { name: "which" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }',
    )
    assert [tensor.name for tensor in config.input] == ["ids"], "Triton fills in the others"


def test_sequences_that_share_batches(tmp_path):
    config = python_config(
        tmp_path,
        triton="{sequences: {strategy: oldest, max_candidates: 9}}",
        batching="{max_batch: 4, preferred_sizes: [2], keep_order: true}",
    )
    same(
        config.sequence_batching.oldest,
        "max_candidate_sequences: 9 preferred_batch_size: 2 preserve_ordering: true",
    )


@pytest.mark.parametrize(
    ("triton", "field", "expected"),
    [
        ("{response_cache: true}", "response_cache", "enable: true"),
        ("{versions: {latest: 2}}", "version_policy", "latest { num_versions: 2 }"),
        ("{versions: {all: true}}", "version_policy", "all {}"),
        ("{versions: {specific: [1]}}", "version_policy", "specific { versions: 1 }"),
        ("{optimization: {graph_level: 0}}", "optimization", "graph { level: 0 }"),
        ("{optimization: {graph_level: -1}}", "optimization", "graph { level: -1 }"),
        (
            "{optimization: {pinned_memory: false}}",
            "optimization",
            "input_pinned_memory { enable: false } output_pinned_memory { enable: false }",
        ),
    ],
)
def test_single_options(tmp_path, triton, field, expected):
    same(getattr(graph_config(tmp_path, triton=triton), field), expected)


def test_a_graph_with_another_file_name(tmp_path):
    spec, graph = a_model(tmp_path / "model").record, a_graph(tmp_path / "graph")
    (graph.folder / "model.onnx").rename(graph.folder / "net.onnx")
    options = {"batching": spec.batching, "triton": spec.triton, "target": Target("cpu")}
    add_graph_model(tmp_path / "repository", name="scorer", graph=graph, **options)
    config = read_config(tmp_path / "repository/scorer/config.pbtxt")
    assert config.default_model_filename == "net.onnx"


def test_one_value_a_row_has_one_dimension_for_triton(tmp_path):
    scalar = TensorSpec(name="score", datatype="FP32", shape=())
    config = graph_config(tmp_path, graph={"outputs": (scalar,)})
    assert (list(config.output[0].dims), list(config.output[0].reshape.shape)) == ([1], [])
    assert config.output[0].HasField("reshape")


def test_ensemble_can_use_the_response_cache(tmp_path):
    add_ensemble(
        tmp_path, name="all", inputs=(IDS,), outputs=(SCORES,), steps=(), max_batch=1, response_cache=True
    )
    text = (tmp_path / "all/config.pbtxt").read_text()
    assert "response_cache" in text
    assert (tmp_path / "all/labels-0.txt").exists()


@pytest.mark.parametrize(
    ("blocks", "graph", "field", "value"),
    [
        ({"batching": "{max_batch: 4}"}, {"batches": False}, "batching.max_batch", "4"),
        ({"batching": "{max_batch: 0}"}, {}, "batching.max_batch", "0"),
        ({"triton": "{instances: [{gpus: [0]}]}"}, {}, "triton.instances.0.gpus", "CPU"),
        ({"triton": "{sequences: {start: mosk}}"}, {}, "triton.sequences.start", "'mosk'"),
        ({"triton": "{sequences: {end: mask}}"}, {}, "triton.sequences.end", "INT32 or FP32 or BOOL"),
        ({"triton": "{parameters: {a: c}}"}, {"parameters": {"a": "b"}}, "triton.parameters.a", "'b'"),
    ],
)
def test_errors_that_need_the_graph(tmp_path, blocks, graph, field, value):
    with pytest.raises(InvalidFilesError) as caught:
        graph_config(tmp_path, graph=graph, **blocks)
    (violation,) = caught.value.violations
    assert (violation.file.name, violation.line, violation.field) == ("model.yaml", 5, field)
    assert value in violation.message
    assert not (tmp_path / "repository").exists()


def test_an_unknown_ragged_input_is_rejected(tmp_path):
    with pytest.raises(InvalidFilesError, match=r"batching.ragged.0: .*'maks'\n.*'mask'"):
        python_config(tmp_path, inputs=(IDS, MASK), batching="{ragged: [maks]}")
