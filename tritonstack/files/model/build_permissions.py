"""What a model's build needs access to, which determines the permissions of its job.

A model with its own code (Python, TorchScript, a pickle, code from a repository) can use all permissions of
its build job, so its job gets a role limited to this one model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import PythonRecipe, TorchScriptRecipe


@dataclass(frozen=True)
class BuildPermissions:
    """Access needed to build a model and its members."""

    own_code: bool
    """Whether the build runs code that is not part of this project."""
    hub: bool
    """Whether its build downloads from Hugging Face."""
    buckets: tuple[str, ...] = ()
    """s3://bucket/prefix of its sources in buckets."""


def permissions_of(name: str, models: Mapping[str, Document[ModelSpec]]) -> BuildPermissions:
    """Return the access that a model's build needs; `models` includes the model and all its members."""
    spec = models[name].record
    source = spec.source or ""
    parts = [permissions_of(member, models) for member in spec.members]
    return BuildPermissions(
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
