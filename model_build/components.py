"""What a model is made of: other models, and the tools that decide the bytes of its artifact."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping

from model_build.recipes import recipe_for
from tritonstack.base.documents import Document
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.tensorrt import VERSION_COMPATIBLE

COMMON_TOOLS = ("isal", "protobuf")
"""Those that pack every archive."""


def tools_of(name: str, models: Mapping[str, Document[ModelSpec]]) -> dict[str, str]:
    """The packages that decide the bytes of a model's artifact, and of those in it, with their versions."""
    tools = set(COMMON_TOOLS).union(*(recipe_for(models[part]).tools for part in _parts(name, models)))
    return {tool: importlib.metadata.version(tool) for tool in sorted(tools)}


def server_arguments_of(name: str, models: Mapping[str, Document[ModelSpec]]) -> tuple[str, ...]:
    """What an endpoint has to tell Triton for a model, or for one that it is made of."""
    parts = (models[part].record for part in _parts(name, models))
    trusting = any(part.tensorrt and part.tensorrt.version_compatible for part in parts)
    return (VERSION_COMPATIBLE,) if trusting else ()


def _parts(name: str, models: Mapping[str, Document[ModelSpec]]) -> Iterator[str]:
    """The model itself, and those that it is made of, however deep."""
    yield name
    for member in models[name].record.members:
        yield from _parts(member, models)
