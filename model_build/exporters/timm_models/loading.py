"""Load a timm model from config.json and its weights, with every tensor or not at all.

timm loads what fits if `model_args` say so, or if numbers of classes differ: the other weights stay random.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from model_build.environments.wheels import TIMM, unpack_packages
from model_build.errors import ExportError, FieldError
from model_build.exporters.loading import quiet, require_weights, shown
from model_build.library_errors import brief, known_help
from model_build.sources.base import read_settings_file
from tritonstack.files.model.fields import Trust

# Import timm and torchvision from the cache. timm imports torchvision, whose library of compiled operators
# belongs to one build of PyTorch: the one for CUDA, in PyPI's wheel. Beside PyTorch for CPUs, this library
# does not load, and torchvision's Python code fails because two operators are missing that it describes to
# PyTorch. This module declares the two, without an implementation. timm's models and image transforms call no
# operator of torchvision; a model that did would fail with PyTorch's own message.

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


WEIGHTS = ("model.safetensors", "pytorch_model.bin")
BELONG = "check that config.json and the weights match; timm's `save_for_hf` writes both"
_OTHER_LOADING = ("device", "dtype", "feature_cls", "features_only", "out_indices", "pretrained", "pruned")
"""Arguments that timm takes from `model_args`, beside those of its builder, and that belong to no model."""


def read_config(folder: Path) -> Mapping[str, Any]:
    """Read config.json; raise ExportError if it describes no timm model, or contradicts itself."""
    if not (folder / "config.json").is_file():
        raise ExportError("the source has no config.json", remedy="save the model with timm's `save_for_hf`")
    config: Mapping[str, Any] = read_settings_file(folder, "config.json")
    if not isinstance(config.get("architecture"), str):
        raise FieldError(
            ("recipe", "library"),
            "config.json describes no timm model: it has no `architecture`",
            remedy="for a transformers model, omit `library: timm`; else save it with timm's `save_for_hf`",
        )
    for key in ("pretrained_cfg", "model_args"):
        if not isinstance(config.get(key, {}), dict):
            raise ExportError(f"config.json: expected {key} to be a mapping", remedy=BELONG)
    return config


def load_model(timm: Any, folder: Path, config: Mapping[str, Any], trust: Trust) -> Any:
    """Return the model; raise ExportError unless its weights and the source's are the same tensors."""
    architecture = config["architecture"]
    if not timm.is_model(architecture):
        raise ExportError(
            f"timm {timm.__version__} has no architecture {architecture!r}",
            remedy="correct `architecture` in config.json, or export the model for the recipe onnx",
        )
    _check_arguments(timm, config)
    # Not the file that timm would choose: it prefers some pickles to safetensors.
    file = str(_weights_of(folder, trust))
    overlay = {"source": "timm", "file": file, "state_dict": None, "custom_load": False}
    try:
        with quiet(), _recorded_loads() as loads:
            model = timm.create_model(f"local-dir:{folder}", pretrained=True, pretrained_cfg_overlay=overlay)
    except Exception as error:
        raise ExportError(
            f"timm cannot load the model: {type(error).__name__}: {brief(error)}",
            remedy=known_help(error) or BELONG,
        ) from error
    _require_all(model, loads)
    return model.float().eval()


def _check_arguments(timm: Any, config: Mapping[str, Any]) -> None:
    """Reject `model_args` that change how weights are loaded, or contradict the number of classes."""
    arguments = config.get("model_args", {})
    others = {*inspect.signature(timm.models.build_model_with_cfg).parameters, *_OTHER_LOADING} - {"kwargs"}
    if loading := sorted(others & arguments.keys()):
        raise ExportError(
            f"config.json: model_args has {', '.join(loading)}, which is not part of a model: timm may leave "
            "weights random, or return other tensors",
            remedy="remove it from model_args, and save the model again with timm's `save_for_hf`",
        )
    # Without `pretrained_cfg`, the whole file has its fields.
    described = config.get("pretrained_cfg", config)
    trained = config.get("num_classes", described.get("num_classes"))
    classes = arguments.get("num_classes")
    if None not in (classes, trained) and classes != trained:
        raise ExportError(
            f"config.json: num_classes is {trained}, and model_args has num_classes {classes}: timm would "
            "leave the classifier random",
            remedy="write the number of the trained classes in both places",
        )


@contextmanager
def _recorded_loads() -> Iterator[Sequence[Any]]:
    """Record the result of each `load_state_dict`: timm only logs what was missing."""
    module: Any = torch.nn.Module
    load, results = module.load_state_dict, []

    def recorded(self: Any, *arguments: Any, **options: Any) -> Any:
        result = load(self, *arguments, **options)
        results.append(result)
        return result

    module.load_state_dict = recorded
    try:
        yield results
    finally:
        module.load_state_dict = load


def _require_all(model: Any, loads: Sequence[Any]) -> None:
    missing = {name for load in loads for name in load.missing_keys}
    require_weights(missing if loads else model.state_dict(), remedy=BELONG)
    if unexpected := {name for load in loads for name in load.unexpected_keys}:
        raise ExportError(
            f"the model that config.json describes does not use these tensors of the source: "
            f"{shown(sorted(unexpected))}",
            remedy=BELONG,
        )
    trained, classes = model.pretrained_cfg.get("num_classes"), getattr(model, "num_classes", None)
    if trained != classes:
        raise ExportError(
            f"config.json: num_classes is {trained}, and the model has {classes} classes",
            remedy="write the number of the trained classes as num_classes",
        )


def _weights_of(folder: Path, trust: Trust) -> Path:
    names = WEIGHTS if trust.pickle is not None else WEIGHTS[:1]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise ExportError(
        f"the source has no {' or '.join(names)}", remedy="save the model with timm's `save_for_hf`"
    )
