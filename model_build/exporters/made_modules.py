"""Make a module with a user's function, and reject one whose weights are random."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from model_build.errors import UserCodeError
from model_build.exporters.unused_weights import shown


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
