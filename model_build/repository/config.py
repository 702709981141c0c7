"""Triton's config.pbtxt, written through Triton's own schema so that a field which is none cannot be.

tritonclient brings the schema compiled, inside a package whose `__init__` insists on grpc; the module itself
needs protobuf alone and is loaded by its file.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf import text_format

from catalog.manifests import TensorSpec
from catalog.triton_options import Batching

CONFIG_NAME = "config.pbtxt"
SCHEMA_FILE = "grpc/model_config_pb2.py"


@cache
def model_config_schema() -> ModuleType:
    """The compiled model_config.proto."""
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
    """A ModelConfig message with what every model has: its name, its tensors, its largest batch."""
    schema = model_config_schema()
    config = schema.ModelConfig(name=name, max_batch_size=max_batch)
    for tensors, field in ((inputs, config.input), (outputs, config.output)):
        for tensor in tensors:
            field.add(name=tensor.name, data_type=_data_type(tensor), dims=tensor.shape)
    return config


def batch_dynamically(config: Any, batching: Batching) -> None:
    """Let Triton gather waiting requests into one batch."""
    config.dynamic_batching.max_queue_delay_microseconds = batching.queue_delay_us


def run_on_cpu(config: Any, *, instances: int = 1) -> None:
    """Say how many copies run at the same time, on the processor."""
    kind = model_config_schema().ModelInstanceGroup.KIND_CPU
    config.instance_group.add(count=instances, kind=kind)


def set_parameter(config: Any, key: str, value: str) -> None:
    """Give the backend a parameter."""
    config.parameters[key].string_value = value


def add_ensemble_step(config: Any, *, model: str, inputs: dict[str, str], outputs: dict[str, str]) -> None:
    """Add a model to an ensemble; the mappings go from the model's tensor names to the ensemble's."""
    step = config.ensemble_scheduling.step.add(model_name=model, model_version=-1)
    step.input_map.update(inputs)
    step.output_map.update(outputs)


def write_config(config: Any, folder: Path) -> Path:
    """Write a message as config.pbtxt: fields in the order of the schema, maps sorted."""
    file = folder / CONFIG_NAME
    file.write_text(text_format.MessageToString(config), encoding="utf-8")
    return file


def read_config(file: Path) -> Any:
    """The message in a config.pbtxt; raises text_format.ParseError where it is none."""
    return text_format.Parse(file.read_text(encoding="utf-8"), model_config_schema().ModelConfig())


def _data_type(tensor: TensorSpec) -> int:
    """The protocol calls text BYTES, the configuration STRING."""
    name = "STRING" if tensor.datatype == "BYTES" else tensor.datatype
    return int(model_config_schema().DataType.Value(f"TYPE_{name}"))
