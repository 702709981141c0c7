"""Import a user's function from a Python file beside model.yaml, and make a module with it."""

from __future__ import annotations

import hashlib
import importlib.util
import traceback
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

import torch

from model_build.errors import UserCodeError
from model_build.exporters.loading import shown
from tritonstack.base.errors import TritonstackError
from tritonstack.base.yaml import suggest


def make_module(function: Callable[[Path], Any], source: Path) -> torch.nn.Module:
    """Build the module with fixed random seeds; raise ExportError for weights that another seed changes.

    A function that loads too little, for example with `strict=False`, returns a module with random weights.
    """
    other = _hashes_of(_made(function, source, seed=1))
    module = _made(function, source, seed=0)
    random = [name for name, digest in _hashes_of(module).items() if other.get(name, digest) != digest]
    if random:
        raise UserCodeError(
            f"the function returns a module with random weights: {shown(random)}",
            remedy="load all weights from the source, with `strict=True`; for weights that are random on "
            "purpose, call torch.manual_seed in the function",
        )
    return module


def _made(function: Callable[[Path], Any], source: Path, *, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    module = function(source)
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"returned a {type(module).__name__}, not a torch.nn.Module")
    return module


def _hashes_of(module: torch.nn.Module) -> Mapping[str, bytes]:
    """Return a hash of each tensor, so that two modules need no memory at once."""
    return {
        name: hashlib.sha256(
            value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        ).digest()
        for name, value in module.state_dict().items()
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_quantized
    }


Result = TypeVar("Result")

MODULE_NAME = "tritonstack_entry"
"""Constant, because TorchScript records the modules of classes."""


def load_entry(folder: Path, entry: str) -> Callable[..., Any]:
    """Import the function in `file.py:function`; leave no entry in sys.modules."""
    name, _, function = entry.partition(":")
    file = folder / name
    spec = importlib.util.spec_from_file_location(
        MODULE_NAME, file, loader=_RecompilingLoader(MODULE_NAME, str(file))
    )
    if spec is None or (loader := spec.loader) is None:
        raise UserCodeError(
            f"{name} cannot be imported",
            remedy="name a Python file, such as model.py",
        )
    module = importlib.util.module_from_spec(spec)
    call_entry(lambda: loader.exec_module(module), file)
    member = getattr(module, function, None)
    if not callable(member):
        functions = [
            key for key, value in vars(module).items() if callable(value) and not key.startswith("_")
        ]
        raise UserCodeError(
            f"{name}: unknown function {function!r}",
            remedy=suggest(function, functions, "add it, or correct its name"),
        )
    function_found: Callable[..., Any] = member
    return function_found


class _RecompilingLoader(SourceFileLoader):
    """Loader that always recompiles: cached bytecode checks only size and mtime in seconds."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile it."""
        return self.source_to_code(self.get_data(self.path), self.path)


def call_entry(action: Callable[[], Result], file: Path) -> Result:
    """Run user code; report its exceptions with the line in the user's file."""
    try:
        return action()
    except TritonstackError:
        raise
    except Exception as error:
        # User code may raise anything; none of it is an error of the build.
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)
        ]
        place = f"{file.name}:{lines[-1]}" if lines else file.name
        raise UserCodeError(
            f"{place}: {type(error).__name__}: {error}",
            remedy=_code_help(error, place),
        ) from error


def _code_help(error: Exception, place: str) -> str:
    if isinstance(error, ImportError):
        return (
            f"install {error.name!r} where the build runs, or correct the import"
            if error.name
            else "correct the import"
        )
    return f"correct the code at {place}"
