"""PyTorch modules as TorchScript: traced with named inputs and outputs, saved as the same bytes every time.

A module may take its inputs as keywords and may return a tensor, a tuple, a dictionary or a record of them;
what is traced takes tensors in the order of the names and returns a tuple in a fixed order, because that is
all that Triton's PyTorch backend can call.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from model_build.errors import ExportError
from tritonstack.base.documents import closest

Array = NDArray[Any]
FILE_NAME = "model.pt"
ALIGNMENT = 64
# What the zip format puts before the name of each entry.
ZIP_HEADER = 30
_JIT: Any = torch.jit
# What a saved module holds beyond what runs: where its lines came from on this machine, the shapes it was
# traced with, and a hash over both.
_UNNEEDED = (".debug_pkl", "/.data/serialization_id", "/traced_inputs.pkl")
_UNNEEDED_FOLDER = "/traced_inputs/"
_TRACE_ERRORS = (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError)


class NamedModule(torch.nn.Module):
    """A module whose inputs are called by name, and whose answers come as a tuple in a fixed order."""

    def __init__(
        self, module: torch.nn.Module, example: Mapping[str, Array], outputs: Sequence[str] | None = None
    ) -> None:
        """`outputs` are those to keep, in their order; by default all that come for `example`."""
        super().__init__()
        self.module = module.eval()
        self.inputs = _in_order_of_forward(module, tuple(example))
        found = _named(self._call(_tensors(example, self.inputs)), outputs)
        self.outputs = tuple(outputs) if outputs else tuple(found)
        _pick(found, self.outputs)
        _check_numbers(self.outputs)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The answers for tensors in the order of `inputs`."""
        return _pick(_named(self._call(tensors), self.outputs), self.outputs)

    def answer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The module's own answers, by name."""
        with torch.no_grad():
            return _arrays(self.outputs, self.forward(*_tensors(inputs, self.inputs)))

    def _call(self, tensors: Sequence[torch.Tensor]) -> Any:
        return self.module(**dict(zip(self.inputs, tensors, strict=True)))


@dataclasses.dataclass(frozen=True)
class TracedModule:
    """TorchScript, and the names of what goes in and comes out, in their order."""

    script: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def answer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Its answers, by name."""
        with torch.no_grad():
            try:
                return _arrays(self.outputs, self.script(*_tensors(inputs, self.inputs)))
            except RuntimeError as error:
                # What TorchScript says begins with its own stack, and ends with what happened.
                reason = str(error).strip().splitlines()[-1]
                raise ExportError(f"the module cannot answer a test input: {reason}") from error


def make_module(function: Callable[[Path], Any], source: Path) -> torch.nn.Module:
    """The module that a function makes of a source's folder; what is random in it is the same every time."""
    torch.manual_seed(0)
    made = function(source)
    if not isinstance(made, torch.nn.Module):
        raise TypeError(f"it returned a {type(made).__name__}, not a torch.nn.Module")
    return made


def name_tensors(
    module: torch.nn.Module, example: Mapping[str, Array], outputs: Sequence[str] | None = None
) -> NamedModule:
    """The module with names for what goes in and comes out, as it answers `example`."""
    try:
        with torch.no_grad(), _quiet():
            return NamedModule(module, example, outputs)
    except _TRACE_ERRORS as error:
        raise ExportError(
            f"the module cannot answer the test inputs: {error}",
            remedy="write test inputs as its forward takes them, without the batch dimension",
        ) from error


def trace_module(
    module: torch.nn.Module, example: Mapping[str, Array], *, outputs: Sequence[str] | None = None
) -> TracedModule:
    """Trace `module` for named inputs; with more than one row in `example`, any number of rows will do."""
    named = module if isinstance(module, NamedModule) else name_tensors(module, example, outputs)
    try:
        with torch.no_grad(), _quiet(), _names_of_its_own(), _signature(named.inputs):
            script = _JIT.trace(named, _tensors(example, named.inputs), check_trace=False)
    except _TRACE_ERRORS as error:
        raise ExportError(
            f"PyTorch cannot trace this module: {error}",
            remedy="what a module does in dependence of its inputs' values cannot be traced; script it",
        ) from error
    return TracedModule(script, named.inputs, named.outputs)


def save_torchscript(traced: TracedModule, folder: Path) -> Path:
    """Write model.pt into `folder`; the same module gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with _quiet():
        _JIT.save(traced.script, buffer)
    file = folder / FILE_NAME
    with zipfile.ZipFile(buffer) as saved, zipfile.ZipFile(file, "w") as kept:
        for entry in sorted(saved.namelist()):
            if not entry.endswith(_UNNEEDED) and _UNNEEDED_FOLDER not in entry:
                kept.writestr(_aligned(kept, entry), saved.read(entry))
    return file


def load_torchscript(file: Path, *, outputs: Sequence[str] = ()) -> TracedModule:
    """A saved module; its inputs are named by its own forward, its outputs by the caller or by number."""
    try:
        with _quiet():
            script = _JIT.load(str(file), map_location="cpu").eval()
    except (RuntimeError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise ExportError(f"PyTorch cannot load {file.name}: {first}") from error
    return TracedModule(script, forward_arguments(script), tuple(outputs))


def forward_arguments(script: Any) -> tuple[str, ...]:
    """What a TorchScript module's forward takes; each has to be a tensor."""
    arguments = script._c._get_method("forward").schema.arguments[1:]
    odd = [f"{argument.name}: {argument.type}" for argument in arguments if str(argument.type) != "Tensor"]
    if odd:
        raise ExportError(
            f"the module's forward takes {', '.join(odd)}, and Triton can give it tensors only",
            remedy="wrap it in a module that takes tensors, and save that",
        )
    return tuple(argument.name for argument in arguments)


def known_arguments(module: torch.nn.Module) -> tuple[str, ...] | None:
    """What forward can be given by name; None where it takes any name."""
    if isinstance(module, _JIT.ScriptModule):
        return forward_arguments(module)
    parameters = inspect.signature(module.forward).parameters.values()
    if any(item.kind is item.VAR_KEYWORD for item in parameters):
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(item.name for item in parameters if item.kind in kinds)


def _in_order_of_forward(module: torch.nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    """The inputs in the order in which forward names them, or an error about one it does not know."""
    known = known_arguments(module)
    order = tuple(names) if known is None else known
    for name in names:
        if not name.isidentifier() or name not in order:
            nearest = closest(name, order)
            raise ExportError(
                f"the module's forward takes no {name!r}; it takes {', '.join(order) or 'nothing'}",
                remedy=f"did you mean {nearest!r}?" if nearest else "name the inputs as forward does",
            )
    return tuple(sorted(names, key=order.index))


def _named(result: Any, outputs: Sequence[str] | None) -> dict[str, torch.Tensor]:
    """A module's answer by names: its own keys, or a place among several, as the backend counts them."""
    if dataclasses.is_dataclass(result) and not isinstance(result, Mapping):
        result = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    if isinstance(result, Mapping):
        return {str(name): value for name, value in result.items() if value is not None}
    many = list(result) if isinstance(result, tuple | list) else [result]
    names = outputs if outputs and len(outputs) == len(many) else _numbered(many)
    return dict(zip(names, many, strict=True))


def _pick(found: Mapping[str, Any], names: Sequence[str]) -> tuple[torch.Tensor, ...]:
    for name in names:
        if name not in found:
            nearest = closest(name, found)
            raise ExportError(
                f"the module answers no {name!r}; it answers {', '.join(found)}",
                remedy=f"did you mean {nearest!r}?" if nearest else None,
            )
        if not isinstance(found[name], torch.Tensor):
            raise ExportError(
                f"the module's answer {name!r} is a {type(found[name]).__name__}, not a tensor",
                remedy="let the module answer tensors, by name or one after the other",
            )
    return tuple(found[name] for name in names)


def _tensors(arrays: Mapping[str, Array], names: Sequence[str]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(np.array(arrays[name])) for name in names)


def _arrays(names: Sequence[str], result: Any) -> dict[str, Array]:
    many = result if isinstance(result, tuple) else (result,)
    names = names or _numbered(many)
    for name, tensor in zip(names, many, strict=False):
        if not isinstance(tensor, torch.Tensor):
            raise ExportError(
                f"the module answers a {type(tensor).__name__} as {name}, and Triton takes tensors only",
                remedy="save one that returns a tensor or a tuple of them; `entry` wraps one that does not",
            )
    if len(many) != len(names):
        raise ExportError(f"the module answers {len(many)} tensors, and {len(names)} were expected")
    return {name: tensor.numpy() for name, tensor in zip(names, many, strict=True)}


def _numbered(many: Sequence[Any]) -> list[str]:
    """Names that say a place, as the backend reads them."""
    return [f"OUTPUT__{place}" for place in range(len(many))]


def _check_numbers(names: Sequence[str]) -> None:
    """The backend takes names that all end in __<number> for places, and any others in their order."""
    numbers = [name.partition("__")[2] for name in names]
    if all(map(str.isdecimal, numbers)) and [int(number) for number in numbers] != list(range(len(names))):
        raise ExportError(
            f"the module answers {', '.join(names)}, and Triton takes such numbers for places",
            remedy="number the names in the order in which they are answered, or call them otherwise",
        )


@contextmanager
def _names_of_its_own() -> Iterator[None]:
    """Let class names not depend on what this process traced before: PyTorch numbers them as they come."""
    state = _JIT._state
    before = state._python_cu
    state._python_cu = torch._C.CompilationUnit()
    try:
        yield
    finally:
        state._python_cu = before


@contextmanager
def _signature(names: Sequence[str]) -> Iterator[None]:
    """Let forward's arguments have the inputs' names while it is traced: the backend finds them by these."""
    forward: Any = NamedModule.forward
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in ("self", *names)])
    try:
        yield
    finally:
        del forward.__signature__


def _aligned(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """An entry whose bytes begin where tensors can be mapped, as PyTorch lays them."""
    entry = zipfile.ZipInfo(name)
    begin = archive.fp.tell() if archive.fp else 0
    header = ZIP_HEADER + len(name.encode()) + 4
    padding = -(begin + header) % ALIGNMENT
    entry.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    return entry


@contextmanager
def _quiet() -> Iterator[None]:
    """Notes about tracing are answered by comparing; they are not the user's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
