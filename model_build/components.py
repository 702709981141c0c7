"""The parts of a model: its member models, and the tools that decide the bytes of its artifact."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping

from model_build.environments.fetched_packages import fetched_versions
from model_build.recipes import recipe_for
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tensorrt import VERSION_COMPATIBLE

COMMON_TOOLS = ("isal", "protobuf")
"""Tools that pack every archive."""


def tools_of(name: str, models: Mapping[str, Document[ModelSpec]]) -> dict[str, str]:
    """Return the packages, with versions, that decide the artifact bytes of a model and its members."""
    tools = set(COMMON_TOOLS).union(*(recipe_for(models[part]).tools for part in _parts(name, models)))
    fetched = fetched_versions()
    return {tool: fetched.get(tool) or importlib.metadata.version(tool) for tool in sorted(tools)}


def server_arguments_of(name: str, models: Mapping[str, Document[ModelSpec]]) -> tuple[str, ...]:
    """Return the Triton arguments that a model or its members need."""
    parts = (models[part].record for part in _parts(name, models))
    trusting = any(part.tensorrt and part.tensorrt.version_compatible for part in parts)
    return (VERSION_COMPATIBLE,) if trusting else ()


def _parts(name: str, models: Mapping[str, Document[ModelSpec]]) -> Iterator[str]:
    """Yield the model and its members, at any depth."""
    yield name
    for member in models[name].record.members:
        yield from _parts(member, models)
