"""config.pbtxt files of users: kept unchanged, completed, or rejected with the position."""

from pathlib import Path
from typing import Any

import pytest

from model_build.repository.config import parse_config
from model_build.repository.existing import read_existing
from model_build.repository.parts import ModelProperties, add_graph_model
from tests.model_build.repository.tiny_repositories import a_graph, a_model
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.facts.targets import parse_target

HEAD = 'name: "scorer"\nbackend: "onnxruntime"\nmax_batch_size: 32\n'
TENSORS = """\
input [
  { name: "ids" data_type: TYPE_INT64 dims: [ -1 ] },
  { name: "mask" data_type: TYPE_INT64 dims: [ -1 ] }
]
output [ { name: "scores" data_type: TYPE_FP32 dims: [ 2 ] } ]
"""
WHOLE = {
    "as the documentation writes them": HEAD + TENSORS,
    "comments everywhere": f"# ours\n{HEAD}  # the largest\n{TENSORS}# end",
    "no line at the end": (HEAD + TENSORS).rstrip("\n"),
    "lines of Windows": (HEAD + TENSORS).replace("\n", "\r\n"),
    "the older name of the backend": TENSORS
    + 'platform: "onnxruntime_onnx" name: "scorer" max_batch_size: 32',
    "parameters": HEAD
    + TENSORS
    + 'parameters { key: "intra_op_thread_count" value: { string_value: "1" } }\n'
    + "parameters: { key: \"x\"\n value: { string_value: 'a' 'b' } }\n",
    "sizes that are narrowed": HEAD + TENSORS.replace("[ -1 ]", "[ 16 ]"),
    "warm-up of one's own": HEAD
    + TENSORS
    + 'model_warmup [ { name: "w" batch_size: 1 inputs { key: "ids" value { data_type: TYPE_INT64 '
    + 'dims: 4 zero_data: true } } inputs { key: "mask" value { data_type: TYPE_INT64 dims: 4 '
    + "random_data: true } } } ]\n",
}


def write_config(tmp_path: Path, text: str, *, graph: dict[str, Any] | None = None, **blocks: str) -> str:
    """Return the text written for a model with this config.pbtxt beside its model.yaml."""
    folder = tmp_path / "model"
    folder.mkdir(parents=True)
    (folder / "config.pbtxt").write_bytes(text.encode())
    triton = blocks.pop("triton", "config: config.pbtxt")
    model = a_model(folder, triton=f"{{{triton}}}", **blocks)
    add_graph_model(
        tmp_path / "repository",
        name="scorer",
        graph=a_graph(tmp_path / "graph", **(graph or {})),
        batching=model.record.batching,
        triton=model.record.triton,
        target=parse_target("cpu"),
        properties=ModelProperties(model=model),
    )
    return (tmp_path / "repository/scorer/config.pbtxt").read_bytes().decode()


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE.keys())
def test_a_complete_configuration_is_unchanged(tmp_path, text):
    assert write_config(tmp_path, text) == text


def test_missing_fields_are_listed_below(tmp_path):
    text = '# ours\ninput { name: "mask" data_type: TYPE_INT64 dims: -1 }  # which count\n'
    written = write_config(tmp_path, text, batching="{max_batch: 8, queue_delay_us: 70}")
    assert written.startswith(text + "\n# Added")
    config = parse_config(written)
    assert (config.name, config.backend, config.max_batch_size) == ("scorer", "onnxruntime", 8)
    assert [tensor.name for tensor in config.input] == ["mask", "ids"]
    assert [tensor.name for tensor in config.output] == ["scores"]
    assert config.dynamic_batching.max_queue_delay_microseconds == 70
    assert not config.instance_group, "the model sets no instances, and Triton has a default"


def test_an_empty_file_is_completed(tmp_path):
    config = parse_config(write_config(tmp_path, ""))
    assert (config.name, len(config.input), config.max_batch_size) == ("scorer", 2, 32)
    assert config.WhichOneof("scheduling_choice") is None


def test_parameters_and_engines_are_added_to_existing_ones(tmp_path):
    graph = {"parameters": {"g": "2"}, "engines": {"8.6": "a.plan"}}
    triton = 'config: config.pbtxt, parameters: {more: "1"}'
    config = parse_config(write_config(tmp_path, WHOLE["parameters"], triton=triton, graph=graph))
    values = {key: value.string_value for key, value in config.parameters.items()}
    assert values == {"intra_op_thread_count": "1", "x": "ab", "more": "1", "g": "2"}
    assert dict(config.cc_model_filenames) == {"8.6": "a.plan"}


def violation_of(folder: Path, text: str, **blocks: str) -> FileViolation:
    with pytest.raises(InvalidFilesError) as caught:
        write_config(folder, text, **blocks)
    assert caught.value.violations[0].code == "TS316"
    return caught.value.violations[0]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('name: "scorer"\nmax_batch: 3\n', 2, '"max_batch"'),
        ('name "scorer"\n', 1, "column 6"),
        (HEAD + TENSORS.replace("FP32", "FP99"), 8, "TYPE_FP99"),
        (HEAD + "dynamic_batching {\n", 4, "column 18"),
        ('name: "a"\nname: "b"\n', 2, '"name"'),
    ],
)
def test_invalid_configurations(tmp_path, text, line, message):
    violation = violation_of(tmp_path, text)
    assert (violation.file.name, violation.line) == ("config.pbtxt", line)
    assert message in violation.message


def test_bytes_that_are_not_text(tmp_path):
    (tmp_path / "config.pbtxt").write_bytes(b'name: "\xff"')
    with pytest.raises(InvalidFilesError, match="byte 7"):
        read_existing(a_model(tmp_path, triton="{config: config.pbtxt}"))


WARM_UP = 'model_warmup { name: "w" batch_size: 1 inputs { key: "ids" value { data_type: TYPE_INT64 '


@pytest.mark.parametrize(
    ("text", "blocks", "line", "field", "value"),
    [
        ('name: "other"\n', {}, 1, "name", "'other'"),
        ('\nbackend: "pytorch"\n', {}, 2, "backend", "'pytorch'"),
        ('platform: "tensorrt_plan"\n', {}, 1, "platform", "'tensorrt_plan'"),
        ("max_batch_size: 8\n", {}, 1, "max_batch_size", "default of model.yaml 32"),
        ("max_batch_size: 0\n", {"batching": "{max_batch: 4}"}, 1, "max_batch_size", "model.yaml:6"),
        ('input [\n { name: "idz" data_type: TYPE_INT64 dims: -1 } ]\n', {}, 2, "input.name", "'idz'"),
        (
            'output {\n name: "scores"\n data_type: TYPE_FP64\n dims: 2 }\n',
            {},
            *(3, "output.data_type", "TYPE_FP32 in the model, got TYPE_FP64"),
        ),
        ('output {\n name: "scores"\n data_type: TYPE_FP32\n dims: -1}\n', {}, 4, "output.dims", "'scores'"),
        (
            "dynamic_batching {\n max_queue_delay_microseconds: 9 }\n",
            {"batching": "{queue_delay_us: 5}"},
            *(2, "dynamic_batching.max_queue_delay_microseconds", "model.yaml:6 (batching.queue_delay_us)"),
        ),
        ("dynamic_batching {}\n", {"batching": "{dynamic: false}"}, 1, "dynamic_batching", "model.yaml"),
        ("sequence_batching {direct {}}\n", {}, 1, "sequence_batching", ""),
        ("\nresponse_cache {enable: true}\n", {}, 2, "response_cache", ""),
        ("instance_group { kind: KIND_GPU }\n", {}, 1, "instance_group", "GPU"),
        ("model_transaction_policy { decoupled: true }\n", {}, 1, "model_transaction_policy", ""),
        (
            'output { name: "scores" data_type: TYPE_FP32 dims: 2 label_filename: "l.txt" }\n',
            {},
            *(1, "output.label_filename", "l.txt"),
        ),
        (WARM_UP + 'dims: 1 input_data_file: "f" } } }\n', {}, 1, "model_warmup", ""),
        (
            WHOLE["parameters"],
            {"triton": 'config: config.pbtxt, parameters: {intra_op_thread_count: "2"}'},
            *(9, "parameters", "intra_op_thread_count to '2'"),
        ),
    ],
)
def test_contradictions_name_both_places(tmp_path, text, blocks, line, field, value):
    violation = violation_of(tmp_path, text, **blocks)
    assert (violation.file.name, violation.line, violation.field) == ("config.pbtxt", line, field)
    assert value in violation.message


def test_cache_used_by_both(tmp_path):
    text = HEAD + TENSORS + "response_cache { enable: true }\n"
    assert write_config(tmp_path, text, triton="config: config.pbtxt, response_cache: true") == text
