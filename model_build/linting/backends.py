"""Complete a configuration as Triton does before it loads a model: backend, platform, and file name.

Follows AutoCompleteBackendFields in Triton's core, for the backends of SageMaker's images.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from model_build.repository.config import MODEL_FILES
from model_build.repository.contradictions import PLATFORMS

DEFAULT_FILES: Mapping[str, str] = MappingProxyType(
    {
        **{backend: file for backend, file in MODEL_FILES.items() if backend != "vllm"},
        "openvino": "model.xml",
    }
)
"""Files from which Triton recognizes a backend."""
FOREST_FILES: Mapping[str, str] = MappingProxyType(
    {
        "xgboost": "xgboost.model",
        "xgboost_json": "xgboost.json",
        "xgboost_ubj": "xgboost.ubj",
        "lightgbm": "model.txt",
        "treelite_checkpoint": "checkpoint.tl",
    }
)
"""Files of the FIL backend by `model_type`."""
SHIPPED = frozenset(
    {*DEFAULT_FILES, "fil", "dali", "identity", "repeat", "square"},
)
"""Backends of SageMaker's images."""
OTHER_PLATFORMS = ("ensemble", "pytorch_aoti")
COMPLETED = frozenset({"onnxruntime", "tensorrt", "openvino", "python"})
"""Backends that fill in missing tensors; a Python model needs `auto_complete_config` for that."""
TENSORFLOW_PLATFORMS = ("tensorflow_savedmodel", "tensorflow_graphdef")
TENSORFLOW_UNTIL = "25.02"
"""The last release with the TensorFlow backend."""


def completed(config: Any, versions: list[Path]) -> Any:
    """Return a copy with backend and file name as Triton completes them."""
    whole = type(config)()
    whole.CopyFrom(config)
    if whole.platform == "ensemble" or whole.HasField("ensemble_scheduling"):
        return whole
    if not whole.backend:
        whole.backend = _backend(whole, versions)
    if not whole.default_model_filename:
        whole.default_model_filename = _file_name(whole)
    return whole


def _backend(config: Any, versions: list[Path]) -> str:
    if config.platform:
        if config.platform in TENSORFLOW_PLATFORMS:
            return "tensorflow"
        return next((name for name, platforms in PLATFORMS.items() if config.platform in platforms), "")
    by_file = {file: backend for backend, file in DEFAULT_FILES.items()}
    if config.default_model_filename:
        return by_file.get(config.default_model_filename, "")
    names = {entry.name for entry in versions[0].iterdir()} if versions else set()
    if "model.savedmodel" in names:
        return "tensorflow"
    return next((backend for file, backend in by_file.items() if file in names), "")


def _file_name(config: Any) -> str:
    if config.backend == "fil":
        kind = (
            config.parameters["model_type"].string_value if "model_type" in config.parameters else "xgboost"
        )
        return FOREST_FILES.get(kind, "")
    if config.backend == "tensorflow":
        return "model.graphdef" if config.platform.endswith("graphdef") else "model.savedmodel"
    if config.platform in OTHER_PLATFORMS:
        return ""
    return DEFAULT_FILES.get(config.backend, "")
