"""Write config.pbtxt through Triton's own protobuf schema.

tritonclient's package imports grpc; its compiled schema needs only protobuf and is loaded by file.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from google.protobuf import text_format

from tritonstack.files.records.manifests import TensorSpec

# Find the line of each field in a config.pbtxt, for error messages. protobuf reports positions of syntax
# errors only. This follows the grammar of protobuf's text format (names, values, `{}` and `<>` blocks, `[]`
# lists) without validating it.

FieldPlace = tuple[str | int, ...]
"""A field path, with the index of each repeated item: ("input", 0, "dims", 1)."""

_STRING = r"""(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_TOKEN = re.compile(rf"""\#[^\n]*|{_STRING}(?:\s*{_STRING})*|[{{}}<>\[\]]|[^\s{{}}<>\[\],;:\#"']+""")
"""A comment, adjacent strings, which are one, a bracket, or a word; separators are skipped."""
_Tokens = deque[tuple[str, int]]


def field_lines(text: str) -> Mapping[FieldPlace, int]:
    """Return the line of every field in a valid text."""
    lines: dict[FieldPlace, int] = {}
    _read_block(deque(_tokens(text)), (), lines)
    return lines


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, end = 1, 0
    for match in _TOKEN.finditer(text):
        line, end = line + text.count("\n", end, match.start()), match.start()
        if not match.group().startswith("#"):
            yield match.group(), line


def _read_block(tokens: _Tokens, place: FieldPlace, lines: dict[FieldPlace, int]) -> None:
    """Read fields to the end of a block."""
    counts = Counter[str]()
    while tokens and (token := tokens.popleft())[0] not in ("}", ">"):
        name, line = token
        lines.setdefault((*place, name), line)
        for value, value_line in _values(tokens, line):
            item = (*place, name, counts[name])
            counts[name] += 1
            lines[item] = value_line
            if value in ("{", "<"):
                _read_block(tokens, item, lines)


def _values(tokens: _Tokens, line: int) -> Iterator[tuple[str, int]]:
    """Yield the first token of each value of a field: one at the field's line, or those of a list."""
    if (first := tokens.popleft()[0]) != "[":
        yield first, line
        return
    while (token := tokens.popleft())[0] != "]":
        yield token


def line_of(lines: Mapping[FieldPlace, int], *place: str | int) -> int | None:
    """Return the line of a field or its nearest parent; without an index, the first item's."""
    full: list[str | int] = []
    for part in place:
        if isinstance(part, str) and full and isinstance(full[-1], str):
            full.append(0)
        full.append(part)
    place = tuple(full)
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return None


def field_of(place: FieldPlace) -> str:
    """Return a field in dotted form, without the indexes of items."""
    return ".".join(part for part in place if isinstance(part, str))


CONFIG_NAME = "config.pbtxt"
SCHEMA_FILE = "grpc/model_config_pb2.py"
MODEL_FILES: Mapping[str, str] = MappingProxyType(
    {
        "onnxruntime": "model.onnx",
        "openvino": "model.xml",
        "pytorch": "model.pt",
        "tensorrt": "model.plan",
        "python": "model.py",
        "vllm": "model.json",
    }
)
"""Default file names of backends in a version folder."""


@cache
def model_config_schema() -> ModuleType:
    """Load the compiled model_config.proto."""
    package = importlib.util.find_spec("tritonclient")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("tritonclient is not installed", name="tritonclient")
    file = Path(package.submodule_search_locations[0]) / SCHEMA_FILE
    spec = importlib.util.spec_from_file_location("model_build._model_config_pb2", file)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"{file} cannot be loaded", name="tritonclient")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model_config(
    *, name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], max_batch: int
) -> Any:
    """Create a ModelConfig with name, backend, tensors, and largest batch."""
    schema = model_config_schema()
    config = schema.ModelConfig(name=name, max_batch_size=max_batch)
    for tensors, field in ((inputs, config.input), (outputs, config.output)):
        for tensor in tensors:
            added = field.add(
                name=tensor.name, data_type=data_type(tensor.datatype), dims=tensor.shape or (1,)
            )
            if not tensor.shape:
                # One value per row: Triton requires a dimension, and the backend gets size 1.
                added.reshape.SetInParent()
    return config


def remove_batching(config: Any) -> None:
    """Turn the batch into an ordinary dimension of every tensor; requests look the same."""
    config.max_batch_size = 0
    for tensor in (*config.input, *config.output):
        tensor.dims.insert(0, -1)
        if tensor.HasField("reshape"):
            tensor.reshape.shape.insert(0, -1)


def add_labels(config: Any, folder: Path, outputs: Sequence[TensorSpec]) -> None:
    """Write label files for Triton's classification extension."""
    for index, (tensor, output) in enumerate(zip(outputs, config.output, strict=True)):
        if tensor.labels:
            output.label_filename = f"labels-{index}.txt"
            # Triton reads every line as a label.
            lines = (" ".join(label.split()) for label in tensor.labels)
            (folder / output.label_filename).write_text("\n".join(lines) + "\n", encoding="utf-8")


def set_parameter(config: Any, key: str, value: str) -> None:
    """Set a backend parameter."""
    config.parameters[key].string_value = value


def add_ensemble_step(config: Any, *, model: str, inputs: dict[str, str], outputs: dict[str, str]) -> None:
    """Add a model to an ensemble; mappings go from the model's tensor names to the ensemble's."""
    step = config.ensemble_scheduling.step.add(model_name=model, model_version=-1)
    step.input_map.update(inputs)
    step.output_map.update(outputs)


def write_config(config: Any, folder: Path) -> Path:
    """Write a message as config.pbtxt: fields in schema order, maps sorted."""
    file = folder / CONFIG_NAME
    file.write_text(text_format.MessageToString(config), encoding="utf-8")
    return file


def read_config(file: Path) -> Any:
    """Read a config.pbtxt; raise text_format.ParseError if invalid."""
    return parse_config(file.read_text(encoding="utf-8"))


def parse_config(text: str) -> Any:
    """Parse the text of a config.pbtxt; raise text_format.ParseError if invalid."""
    return text_format.Parse(text, model_config_schema().ModelConfig())


def data_type(datatype: str) -> int:
    """Return the config enum of a protocol datatype; BYTES is STRING there."""
    name = "STRING" if datatype == "BYTES" else datatype
    return int(model_config_schema().DataType.Value(f"TYPE_{name}"))


def datatype_name(number: int) -> str:
    """Return the protocol datatype of a config enum; its number if Triton has no such type."""
    types = model_config_schema().DataType.DESCRIPTOR.values_by_number
    name = str(types[number].name if number in types else number).removeprefix("TYPE_")
    return "BYTES" if name == "STRING" else name
