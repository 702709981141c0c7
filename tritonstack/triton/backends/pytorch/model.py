"""Stand-in for Triton's PyTorch backend: runs TorchScript modules in the Python backend.

The embedded server has no C++ PyTorch backend. Unmodified model repositories with `backend: "pytorch"` or
`platform: "pytorch_libtorch"` run through this file. It follows the original's rules for tensor names, module
arguments and results, and model parameters. Unsupported configurations are rejected when the model loads.
Like the original, it completes no configuration, because modules define neither shapes nor types.

Triton's Python backend starts one process per model instance and calls the class below in it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

# The installer links PyTorch into this backend's own folder, so Python models do not see it.
sys.path.append(str(Path(__file__).parent / "packages"))

import numpy as np
import numpy.typing as npt
import torch
import triton_python_backend_utils as pb_utils
from stand_in import (
    CallableModel,
    configuration_error,
    control_inputs,
    openmp_threads,
    read_bool,
    read_number,
    reject_unsupported,
    warn_of_cpu,
)

Array = npt.NDArray[Any]
_torch_jit: Any = torch.jit  # partly untyped

TRITON_TYPE = {
    torch.bool: "TYPE_BOOL",
    torch.uint8: "TYPE_UINT8",
    torch.int8: "TYPE_INT8",
    torch.int16: "TYPE_INT16",
    torch.int32: "TYPE_INT32",
    torch.int64: "TYPE_INT64",
    torch.float16: "TYPE_FP16",
    torch.float32: "TYPE_FP32",
    torch.float64: "TYPE_FP64",
}
TEXT = "TYPE_STRING"
TYPES = frozenset({TEXT, *TRITON_TYPE.values()})
# The C++ backend reads the number after the first two underscores.
NUMBERED = re.compile(r"(?:(?!__).)*__(\d+)")
DEFAULT_FILE = "model.pt"
ALLOWED_KINDS = frozenset({"TensorType", "ListType"})
RUN_ERRORS: tuple[type[Exception], ...] = (RuntimeError, TypeError, ValueError, IndexError, AttributeError)


class TritonPythonModel:
    """One instance of one TorchScript module."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the module; reject a configuration that does not match it."""
        config = json.loads(args["model_config"])
        reject_unsupported(config, of="PyTorch")
        warn_of_cpu(args)
        set_options(config)
        self._inference_mode = read_bool(config, "INFERENCE_MODE", True)
        self._optimize = not read_bool(config, "DISABLE_OPTIMIZED_EXECUTION", False)
        folder = Path(args["model_repository"], args["model_version"])
        self._module = self._load(config, folder / (config["default_model_filename"] or DEFAULT_FILE))
        arguments = read_arguments(config, self._module)
        check_tensors(config)
        self._takes_dict = arguments is None
        self._order = order_inputs(config, arguments or [])
        self._outputs = index_outputs(config)
        self._types = {entry["name"]: entry["data_type"] for entry in config["output"]}
        self._answering = CallableModel(
            config, self._run, errors=RUN_ERRORS, error_prefix="PyTorch execute failure"
        )

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer the requests; those with equal shapes share one run."""
        return self._answering.execute(requests)

    def _load(self, config: Mapping[str, Any], file: Path) -> Any:
        if not file.is_file():
            raise configuration_error(config, f"there is no file {file}")
        try:
            with self._mode():
                return _torch_jit.load(str(file), map_location="cpu")
        except RUN_ERRORS as error:
            raise configuration_error(config, f"TorchScript cannot read {file.name}: {error}") from error

    def _mode(self) -> AbstractContextManager[None]:
        return torch.inference_mode() if self._inference_mode else torch.no_grad()

    def _run(self, feed: dict[str, Array], wanted: list[str]) -> dict[str, Array]:
        values = {name: _to_torch(array) for name, array in feed.items()}
        with self._mode(), _torch_jit.optimized_execution(self._optimize):
            if self._takes_dict:
                answer = self._module(values)
            else:
                answer = self._module(*(values[name] for name in self._order))
        parts = _flatten(answer)
        return {name: self._to_array(name, parts) for name in wanted}

    def _to_array(self, name: str, parts: Sequence[Any]) -> Array:
        index = self._outputs[name]
        if index >= len(parts):
            raise ValueError(
                f"The output {name} in the model configuration refers to an output index which doesn't "
                f"exist. This model has {len(parts)} outputs"
            )
        part = parts[index]
        if isinstance(part, list):
            return np.array([text.encode() for text in part], dtype=np.object_)
        if part.ndim == 0:
            raise ValueError(f"output '{name}' is a scalar which is not supported.")
        provided = TRITON_TYPE.get(part.dtype, f"an unknown type, {part.dtype}")
        if provided != self._types[name]:
            raise ValueError(
                f"configuration expects datatype {self._types[name]} for output '{name}', "
                f"model provides {provided}"
            )
        array: Array = part.detach().contiguous().numpy()
        return array


def _to_torch(array: Array) -> Any:
    """Return a tensor that shares Triton's memory; texts become a list."""
    if array.dtype == np.object_:
        return list(array)
    return torch.from_numpy(array) if array.flags.writeable else torch.from_numpy(array.copy())


def _flatten(answer: Any) -> list[Any]:
    """Return the outputs in order; a module returns a tensor, texts, or a tuple of them."""
    parts = list(answer) if isinstance(answer, tuple) else [answer]
    for index, part in enumerate(parts):
        is_text = isinstance(part, list) and all(isinstance(item, str) for item in part)
        if not isinstance(part, torch.Tensor) and not is_text:
            raise ValueError(
                f"output {index} is of type {type(part).__name__}; outputs must be of type Tensor, List[str] "
                "or Tuple containing one of these two types. It should not be a List / Dictionary of Tensors "
                "or a Scalar"
            )
    return parts


def set_options(config: Mapping[str, Any]) -> None:
    """Apply the original's model parameters.

    DISABLE_CUDNN and ENABLE_CACHE_CLEANING have no effect without a GPU, nor has ENABLE_WEIGHT_SHARING with
    one process per instance; the three are checked only.
    """
    for name in ("DISABLE_CUDNN", "ENABLE_CACHE_CLEANING", "ENABLE_WEIGHT_SHARING"):
        if read_bool(config, name, False):
            pb_utils.Logger.log_info(f"parameter {name} has no effect in this server's stand-in for PyTorch")
    switches = {
        "ENABLE_JIT_PROFILING": torch._C._jit_set_profiling_mode,
        "ENABLE_JIT_EXECUTOR": torch._C._jit_set_profiling_executor,
        "ENABLE_TENSOR_FUSER": torch._C._jit_set_texpr_fuser_enabled,
    }
    for name, switch in switches.items():
        if (asked := read_bool(config, name, None)) is not None:
            switch(asked)
    if threads := read_number(config, "INTRA_OP_THREAD_COUNT", 0) or openmp_threads(config):
        torch.set_num_threads(threads)
    if threads := read_number(config, "INTER_OP_THREAD_COUNT", 0):
        torch.set_num_interop_threads(threads)


def read_arguments(config: Mapping[str, Any], module: Any) -> list[str] | None:
    """Return the names of forward's arguments; None if it takes one dictionary of all inputs."""
    arguments = [
        argument for argument in module.forward.schema.arguments if argument.type.kind() != "ClassType"
    ]
    if len(arguments) == 1 and arguments[0].type.kind() == "DictType":
        return None
    for argument in arguments:
        if argument.type.kind() not in ALLOWED_KINDS:
            raise configuration_error(
                config,
                f"An input of type '{argument.type}' was detected in the model ({argument.name}). Only a "
                "single input of type Dict(str, Tensor) or input(s) of type Tensor are supported.",
            )
    expected = len(config["input"]) + len(control_inputs(config))
    if len(arguments) != expected:
        names = ", ".join(argument.name for argument in arguments)
        raise configuration_error(
            config,
            f"configuration expects {expected} inputs, model provides {len(arguments)}: {names}",
        )
    return [argument.name for argument in arguments]


def order_inputs(config: Mapping[str, Any], arguments: Sequence[str]) -> list[str]:
    """Return the input names in the order of forward's arguments.

    They are either argument names, or numbered as in INPUT__0, or in the configuration's order.
    """
    names = [entry["name"] for entry in config["input"]]
    controls = control_inputs(config)
    if set(names) <= set(arguments) and not controls:
        return sorted(names, key=arguments.index)
    numbers = _numbers(names)
    if numbers is None:
        numbers = {name: index for index, name in enumerate(names)}
        if arguments:
            pb_utils.Logger.log_warn(
                f"the inputs of model '{config['name']}' are neither arguments of its forward nor numbered "
                f"(INPUT__0): they are taken in the configuration's order, {', '.join(names)}"
            )
    for control in controls:
        if not (found := NUMBERED.fullmatch(control)):
            raise configuration_error(
                config, f"input '{control}' does not follow <name>__<index> naming convention."
            )
        numbers[control] = int(found[1])
    if arguments and sorted(numbers.values()) != list(range(len(arguments))):
        raise configuration_error(
            config, f"the numbers of its inputs are not 0 to {len(arguments) - 1}, each once"
        )
    return sorted(numbers, key=lambda name: numbers[name])


def index_outputs(config: Mapping[str, Any]) -> dict[str, int]:
    """Return each output's index in the module's result: by its number if all have one, else in order."""
    names = [entry["name"] for entry in config["output"]]
    numbers = _numbers(names)
    return {name: index for index, name in enumerate(names)} if numbers is None else numbers


def _numbers(names: Sequence[str]) -> dict[str, int] | None:
    found = {name: match for name in names if (match := NUMBERED.fullmatch(name))}
    if len(found) < len(names):
        return None
    return {name: int(match[1]) for name, match in found.items()}


def check_tensors(config: Mapping[str, Any]) -> None:
    """Reject types that PyTorch lacks, and texts with more than one dimension."""
    for kind in ("input", "output"):
        if not config[kind]:
            raise configuration_error(
                config, f"model configuration must contain at least one {kind}, none were specified."
            )
        for entry in config[kind]:
            if entry["data_type"] not in TYPES:
                raise configuration_error(
                    config, f"unsupported datatype {entry['data_type']} for {kind} '{entry['name']}'"
                )
            reshape = entry.get("reshape")
            dims = reshape.get("shape", []) if reshape else entry["dims"]
            if entry["data_type"] == TEXT and len(dims) + bool(config["max_batch_size"]) > 1:
                raise configuration_error(
                    config,
                    f"Triton only supports 1 dimensional List of String as {kind} for '{entry['name']}'",
                )
