"""Trace PyTorch modules to TorchScript, with named inputs and outputs and reproducible bytes.

A module may take keyword inputs and return a tensor, tuple, dictionary, or dataclass. The traced module takes
tensors in name order and returns a tuple, as Triton's PyTorch backend requires.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model_build.data import Array
from model_build.errors import UnsupportedModelError
from tritonstack.base.yaml import closest, suggest

FILE_NAME = "model.pt"
ALIGNMENT = 64
# Prefix of each entry name in the zip file.
ZIP_HEADER = 30
_JIT: Any = torch.jit
# Entries that do not affect execution: source locations, traced shapes, and a hash over both.
_UNNEEDED = (".debug_pkl", "/.data/serialization_id", "/traced_inputs.pkl")
_UNNEEDED_FOLDER = "/traced_inputs/"
_TRACE_ERRORS = (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError)


class NamedModule(torch.nn.Module):
    """A module with keyword inputs whose answers are a tuple in a fixed order."""

    def __init__(
        self, module: torch.nn.Module, example: Mapping[str, Array], outputs: Sequence[str] | None = None
    ) -> None:
        """Wrap a module; `outputs` selects and orders the answers, default all those for `example`."""
        super().__init__()
        self.module = module.eval()
        self.inputs = _in_order_of_forward(module, tuple(example))
        answers = _named(self._call(_tensors(example, self.inputs)), outputs)
        self.outputs = tuple(outputs) if outputs else tuple(answers)
        _pick(answers, self.outputs)
        _check_numbers(self.outputs)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the answers for tensors in the order of `inputs`."""
        return _pick(_named(self._call(tensors), self.outputs), self.outputs)

    def answer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the module's own answers, by name."""
        with torch.no_grad():
            return _arrays(self.outputs, self.forward(*_tensors(inputs, self.inputs)))

    def _call(self, tensors: Sequence[torch.Tensor]) -> Any:
        return self.module(**dict(zip(self.inputs, tensors, strict=True)))


@dataclasses.dataclass(frozen=True)
class TracedModule:
    """TorchScript with its ordered input and output names."""

    script: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def answer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return its answers, by name."""
        with torch.no_grad():
            try:
                return _arrays(self.outputs, self.script(*_tensors(inputs, self.inputs)))
            except RuntimeError as error:
                # TorchScript errors begin with its own stack and end with the cause.
                reason = str(error).strip().splitlines()[-1]
                raise UnsupportedModelError(
                    f"the module fails on a test input: {reason}",
                    remedy="correct the test input's shapes and types, or the module's forward",
                ) from error


def name_tensors(
    module: torch.nn.Module, example: Mapping[str, Array], outputs: Sequence[str] | None = None
) -> NamedModule:
    """Wrap the module with input and output names, as it answers `example`."""
    try:
        with torch.no_grad(), _quiet():
            return NamedModule(module, example, outputs)
    except _TRACE_ERRORS as error:
        raise UnsupportedModelError(
            f"the module fails on the test inputs: {error}",
            remedy="write test inputs in the form that its forward takes, without the batch dimension",
        ) from error


def trace_module(
    module: torch.nn.Module, example: Mapping[str, Array], *, outputs: Sequence[str] | None = None
) -> TracedModule:
    """Trace `module` with named inputs; with several rows in `example`, the batch size is variable."""
    wrapper = module if isinstance(module, NamedModule) else name_tensors(module, example, outputs)
    try:
        with torch.no_grad(), _quiet(), _fresh_class_names(), _signature(wrapper.inputs):
            script = _JIT.trace(wrapper, _tensors(example, wrapper.inputs), check_trace=False)
    except _TRACE_ERRORS as error:
        raise UnsupportedModelError(
            f"PyTorch cannot trace this module: {error}",
            remedy="control flow that depends on input values cannot be traced; use torch.jit.script",
        ) from error
    return TracedModule(script, wrapper.inputs, wrapper.outputs)


def save_torchscript(traced: TracedModule, folder: Path) -> Path:
    """Write model.pt into `folder`; equal modules give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with _quiet():
        _JIT.save(traced.script, buffer)
    file = folder / FILE_NAME
    with zipfile.ZipFile(buffer) as saved, zipfile.ZipFile(file, "w") as archive:
        for entry in sorted(saved.namelist()):
            if not entry.endswith(_UNNEEDED) and _UNNEEDED_FOLDER not in entry:
                archive.writestr(_aligned(archive, entry), saved.read(entry))
    return file


def load_torchscript(file: Path, *, outputs: Sequence[str] = ()) -> TracedModule:
    """Load a saved module; its forward names the inputs, the caller or a number the outputs."""
    try:
        with _quiet():
            script = _JIT.load(str(file), map_location="cpu").eval()
    except (RuntimeError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise UnsupportedModelError(
            f"PyTorch cannot load {file.name}: {first}",
            remedy="save the module with torch.jit.save, with a PyTorch version that is not newer",
        ) from error
    return TracedModule(script, forward_arguments(script), tuple(outputs))


def forward_arguments(script: Any) -> tuple[str, ...]:
    """Return the inputs of a TorchScript module's forward; each must be a tensor."""
    arguments = script._c._get_method("forward").schema.arguments[1:]
    odd = [f"{argument.name}: {argument.type}" for argument in arguments if str(argument.type) != "Tensor"]
    if odd:
        raise UnsupportedModelError(
            f"the module's forward takes {', '.join(odd)}; Triton passes tensors only",
            remedy="wrap it in a module that takes tensors, and save the wrapper",
        )
    return tuple(argument.name for argument in arguments)


def known_arguments(module: torch.nn.Module) -> tuple[str, ...] | None:
    """Return the input names of forward; None if it takes any."""
    if isinstance(module, _JIT.ScriptModule):
        return forward_arguments(module)
    parameters = inspect.signature(module.forward).parameters.values()
    if any(item.kind is item.VAR_KEYWORD for item in parameters):
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(item.name for item in parameters if item.kind in kinds)


def _in_order_of_forward(module: torch.nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    """Return the inputs in forward's order; raise ExportError for an unknown one."""
    arguments = known_arguments(module)
    order = tuple(names) if arguments is None else arguments
    for name in names:
        if not name.isidentifier() or name not in order:
            raise UnsupportedModelError(
                f"forward has no input {name!r}; inputs: {', '.join(order) or 'nothing'}",
                remedy=suggest(name, order, "use forward's input names"),
            )
    return tuple(sorted(names, key=order.index))


def _named(result: Any, outputs: Sequence[str] | None) -> dict[str, torch.Tensor]:
    """Name a module's outputs: by its own keys, or by position, as the backend counts them."""
    if dataclasses.is_dataclass(result) and not isinstance(result, Mapping):
        result = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    if isinstance(result, Mapping):
        return {str(name): value for name, value in result.items() if value is not None}
    many = list(result) if isinstance(result, tuple | list) else [result]
    names = outputs if outputs and len(outputs) == len(many) else _numbered(many)
    return dict(zip(names, many, strict=True))


def _pick(answers: Mapping[str, Any], names: Sequence[str]) -> tuple[torch.Tensor, ...]:
    for name in names:
        if name not in answers:
            nearest = closest(name, answers)
            raise UnsupportedModelError(
                f"the module has no output {name!r}; outputs: {', '.join(answers)}",
                remedy=f"did you mean {nearest!r}?" if nearest else None,
            )
        if not isinstance(answers[name], torch.Tensor):
            raise UnsupportedModelError(
                f"the module's output {name!r} is a {type(answers[name]).__name__}, not a tensor",
                remedy="return tensors, by name or as a tuple",
            )
    return tuple(answers[name] for name in names)


def _tensors(arrays: Mapping[str, Array], names: Sequence[str]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(np.array(arrays[name])) for name in names)


def _arrays(names: Sequence[str], result: Any) -> dict[str, Array]:
    many = result if isinstance(result, tuple) else (result,)
    names = names or _numbered(many)
    for name, tensor in zip(names, many, strict=False):
        if not isinstance(tensor, torch.Tensor):
            raise UnsupportedModelError(
                f"the module's output {name} is a {type(tensor).__name__}; Triton takes tensors only",
                remedy="save a module that returns a tensor or a tuple of tensors; `entry` can wrap it",
            )
    if len(many) != len(names):
        raise UnsupportedModelError(
            f"expected {len(names)} output tensors, got {len(many)}",
            remedy="list as many outputs in model.yaml as the module returns",
        )
    return {name: tensor.numpy() for name, tensor in zip(names, many, strict=True)}


def _numbered(many: Sequence[Any]) -> list[str]:
    """Return positional names, as the backend parses them."""
    return [f"OUTPUT__{place}" for place in range(len(many))]


def _check_numbers(names: Sequence[str]) -> None:
    """Reject misleading names: if all end in __<number>, the backend reads them as positions."""
    numbers = [name.partition("__")[2] for name in names]
    if all(map(str.isdecimal, numbers)) and [int(number) for number in numbers] != list(range(len(names))):
        raise UnsupportedModelError(
            f"outputs {', '.join(names)}: Triton reads these numbers as positions",
            remedy="number the names in output order, or rename them",
        )


@contextmanager
def _fresh_class_names() -> Iterator[None]:
    """Reset PyTorch's class name counter, so that names do not depend on earlier traces."""
    state = _JIT._state
    before = state._python_cu
    state._python_cu = torch._C.CompilationUnit()
    try:
        yield
    finally:
        state._python_cu = before


@contextmanager
def _signature(names: Sequence[str]) -> Iterator[None]:
    """Give forward's arguments the input names during tracing: the backend looks them up."""
    forward: Any = NamedModule.forward
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in ("self", *names)])
    try:
        yield
    finally:
        del forward.__signature__


def _aligned(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """Write an entry with aligned data, as PyTorch does for memory mapping."""
    entry = zipfile.ZipInfo(name)
    begin = archive.fp.tell() if archive.fp else 0
    header = ZIP_HEADER + len(name.encode()) + 4
    padding = -(begin + header) % ALIGNMENT
    entry.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    return entry


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress tracing warnings: the comparison covers them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
