"""What a build of a model reaches for, from which follows what its job may do.

A model that brings code of its own (Python, TorchScript, a pickle, a repository's code) can do in its job
whatever the job may do: such a job gets a role that ends at this one model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tritonstack.base.documents import Document
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import PythonRecipe, TorchScriptRecipe


@dataclass(frozen=True)
class BuildReach:
    """Of one model, with those that it is made of."""

    own_code: bool
    """Whether code runs in its build that is not this project's."""
    hub: bool
    """Whether its build downloads from Hugging Face."""
    buckets: tuple[str, ...] = ()
    """s3://bucket/prefix of the sources that lie in buckets."""


def reach_of(name: str, models: Mapping[str, Document[ModelSpec]]) -> BuildReach:
    """What the build of a model reaches for; `models` holds it and all that its steps name."""
    spec = models[name].record
    source = spec.source or ""
    parts = [reach_of(member, models) for member in spec.members]
    return BuildReach(
        own_code=_brings_code(spec) or any(part.own_code for part in parts),
        hub=source.startswith("hf://") or any(part.hub for part in parts),
        buckets=tuple(
            sorted(
                {url for part in parts for url in part.buckets}
                | ({source} if source.startswith("s3://") else set())
            )
        ),
    )


def _brings_code(spec: ModelSpec) -> bool:
    trusted = spec.trust.pickle is not None or spec.trust.remote_code is not None
    return trusted or isinstance(spec.recipe, PythonRecipe | TorchScriptRecipe)
