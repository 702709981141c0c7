"""Read a user's config.pbtxt, check it against the graph and model.yaml, and complete it.

The user's text is kept byte for byte. Missing fields are appended; contradictions name both files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from model_build.errors import ModelConfigError
from model_build.repository.config import (
    FieldPlace,
    field_lines,
    field_of,
    line_of,
    model_config_schema,
    parse_config,
)
from model_build.repository.options import control_inputs
from tritonstack.base.error_kinds import MissingReferenceError
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.yaml import Document, FieldPath
from tritonstack.files.model.model import ModelSpec

ADDED = "\n# Added by the build, because the model needs it and nothing above says it.\n"

CHOICES: tuple[tuple[FieldPath, tuple[str, ...]], ...] = (
    (("batching", "queue_delay_us"), ("dynamic_batching", "max_queue_delay_microseconds")),
    (("batching", "preferred_sizes"), ("dynamic_batching", "preferred_batch_size")),
    (("batching", "keep_order"), ("dynamic_batching", "preserve_ordering")),
    (("batching", "priorities", "levels"), ("dynamic_batching", "priority_levels")),
    (("batching", "priorities", "default"), ("dynamic_batching", "default_priority_level")),
    (("batching", "queue"), ("dynamic_batching", "default_queue_policy")),
    (("batching", "dynamic"), ("dynamic_batching",)),
    (("triton", "instances"), ("instance_group",)),
    (("triton", "sequences"), ("sequence_batching",)),
    (("triton", "response_cache"), ("response_cache", "enable")),
    (("triton", "warm_up"), ("model_warmup",)),
    (("triton", "versions"), ("version_policy",)),
    (("triton", "optimization", "graph_level"), ("optimization", "graph", "level")),
    (("triton", "optimization", "cuda_graphs"), ("optimization", "cuda", "graphs")),
    (("triton", "optimization", "pinned_memory"), ("optimization", "input_pinned_memory")),
    (("triton", "optimization", "pinned_memory"), ("optimization", "output_pinned_memory")),
)
"""Settings that both files can have: the field of model.yaml and that of config.pbtxt."""
_NEEDED = (
    "name",
    "max_batch_size",
    "default_model_filename",
    "cc_model_filenames",
    "model_transaction_policy",
)
"""Fields that follow from the model, not from a choice."""


@dataclass(frozen=True)
class ExistingConfig:
    """The user's text, parsed."""

    model: Document[ModelSpec]
    file: Path
    text: str
    message: Any
    lines: Mapping[FieldPlace, int]

    @property
    def fields(self) -> set[str]:
        """The fields in the text, including those with default values."""
        return {str(place[0]) for place in self.lines}

    def violation(self, message: str, remedy: str, *place: str | int) -> FileViolation:
        """Return a violation at a field of the text."""
        line, field = line_of(self.lines, *place), field_of(place)
        return FileViolation(self.file, line, field, message, remedy, code=ModelConfigError.code)


def read_existing(model: Document[ModelSpec]) -> ExistingConfig | None:
    """Read the config.pbtxt in model.yaml; None if not set. Raise InvalidFilesError if invalid."""
    name = model.record.triton.config
    if name is None:
        return None
    file = model.file.parent / name
    try:
        text, message, lines = parse_file(file)
    except FileNotFoundError:
        raise model.invalid(
            MissingReferenceError,
            ("triton", "config"),
            f"file not found: {name}",
            "add it or correct its name",
        ) from None
    return ExistingConfig(model, file, text, message, lines)


def parse_file(file: Path, *, shown: Path | None = None) -> tuple[str, Any, Mapping[FieldPlace, int]]:
    """Return the text, the message, and the lines of a config.pbtxt; raise InvalidFilesError if invalid.

    `shown` is the path for errors.
    """
    line = None
    try:
        text = file.read_bytes().decode("utf-8")
        return text, parse_config(text), field_lines(text)
    except UnicodeDecodeError as error:
        message, remedy = f"byte {error.start} is not UTF-8", "save it as UTF-8"
    except text_format.ParseError as error:
        column = f"column {error.GetColumn()}: " if error.GetColumn() else ""
        line, message, remedy = error.GetLine(), f"{column}{_without_place(error)}", _hint(error)
    violation = FileViolation(shown or file, line, "", message, remedy, code=ModelConfigError.code)
    raise InvalidFilesError([violation])


def complete_existing(existing: ExistingConfig, generated: Any) -> str:
    """Return the user's text with missing fields appended."""
    missing = _missing(existing, generated)
    if not missing.ListFields():
        return existing.text
    return existing.text.rstrip("\n") + "\n" + ADDED + text_format.MessageToString(missing)


def _missing(existing: ExistingConfig, generated: Any) -> Any:
    message, missing = existing.message, model_config_schema().ModelConfig()
    present = existing.fields
    if not present & {"backend", "platform"}:
        missing.backend, missing.platform = generated.backend, generated.platform
    chosen = {place[0] for path, place in CHOICES if is_written(existing.model, path)}
    for field, value in generated.ListFields():
        if field.name in present or field.name not in (*_NEEDED, *chosen, *_follows(generated)):
            continue
        if field.is_repeated or field.message_type is not None:
            getattr(missing, field.name).MergeFrom(value)
        else:
            setattr(missing, field.name, value)
    for key in sorted(set(generated.parameters) - set(message.parameters)):
        missing.parameters[key].CopyFrom(generated.parameters[key])
    for name in ("input", "output"):
        declared = {tensor.name for tensor in getattr(message, name)} | filled_in(message)
        getattr(missing, name).extend(
            tensor for tensor in getattr(generated, name) if tensor.name not in declared
        )
    return missing


def _follows(generated: Any) -> tuple[str, ...]:
    """Return fields that follow from the graph if it was built for special hardware."""
    return ("optimization",) if generated.optimization.HasField("execution_accelerators") else ()


def filled_in(config: Any) -> set[str]:
    """Return the tensors that Triton creates or carries between requests."""
    return {
        *(control.name for control in config.sequence_batching.control_input),
        *(state.input_name for state in config.sequence_batching.state),
        *(state.output_name for state in config.sequence_batching.state),
        *(name for batch_input in config.batch_input for name in batch_input.target_name),
    }


def tensors_of_triton(model: Document[ModelSpec]) -> set[str]:
    """Return the tensors that callers neither send nor receive."""
    existing = read_existing(model)
    controls = set(control_inputs(model.record.triton.sequences).values())
    return controls | (filled_in(existing.message) if existing else set())


def is_written(model: Document[ModelSpec], path: FieldPath) -> bool:
    """Return whether a model's file sets a value instead of using the default."""
    return path in model.lines


def _without_place(error: text_format.ParseError) -> str:
    """Return protobuf's message without position and source line, which are reported separately."""
    return re.sub(r"^'.*': ", "", str(error).split(" : ", 1)[-1].strip(), flags=re.DOTALL)


def _hint(error: text_format.ParseError) -> str:
    if "no field named" in str(error):
        return "use the fields of Triton's model_config.proto"
    return "use protobuf's text format"
