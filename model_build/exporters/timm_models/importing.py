"""Import timm and torchvision from the cache.

timm imports torchvision, whose library of compiled operators belongs to one build of PyTorch: the one for
CUDA, in PyPI's wheel. Beside PyTorch for CPUs, this library does not load, and torchvision's Python code
fails because two operators are missing that it describes to PyTorch. This module declares the two, without an
implementation. timm's models and image transforms call no operator of torchvision; a model that did would
fail with PyTorch's own message.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import torch

from model_build.environments.fetched_packages import TIMM, unpack_packages
from model_build.errors import ExportError
from model_build.library_errors import brief

COMPILED = Path("torchvision", "_C.so")
DESCRIBED = ("nms", "qnms")
"""Operators that torchvision describes even if its library is missing."""
SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_declared: list[torch.library.Library] = []
"""PyTorch forgets a declaration with its library object."""


def import_timm(cache_dir: Path) -> Any:
    """Return timm, with `timm.data` and `timm.models`; fetch it if the cache lacks it."""
    folder = unpack_packages(TIMM, cache_dir=cache_dir)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # behind what is installed
    if "torchvision" not in sys.modules:
        _load_operators(folder / COMPILED)
    try:
        timm = importlib.import_module("timm")
        importlib.import_module("timm.data")
    except Exception as error:
        raise ExportError(
            f"timm cannot be imported: {type(error).__name__}: {brief(error)}",
            remedy="correct the versions of torch and torchvision in pyproject.toml, and run `make lock`",
        ) from error
    return timm


def _load_operators(library: Path) -> None:
    untyped: Any = torch
    try:
        untyped.ops.load_library(library)
    except OSError:
        declarations = untyped.library.Library("torchvision", "FRAGMENT")
        for name in DESCRIBED:
            declarations.define(f"{name}{SCHEMA}")
        _declared.append(declarations)
