"""Hash everything in the repository that a model's artifact depends on.

The hash changes when the artifact must be rebuilt: with model.yaml (except its description), the files that
the build reads, Python modules beside the model's code, a `file://` source, and the members of an ensemble.
Everything else has an exact version in model.yaml.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tritonstack.base.yaml import Document
from tritonstack.project.files.digests import cached_digests
from tritonstack.project.files.model_files import CODE_SUFFIX, ModelFiles, model_files
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import PythonRecipe

BUILDER_VERSION = 7
"""Incremented when model_build produces other bytes from the same model.yaml. Builds then replace artifacts;
until then, locked artifacts stay deployable."""
BUILDER = "builder"


class ModelHash(NamedTuple):
    """The hash of a model's build inputs."""

    value: str
    parts: Mapping[str, str]
    """Shortened hashes of its parts, which show what has changed."""


def model_hash(name: str, models: Mapping[str, Document[ModelSpec]]) -> str:
    """Return the hash of a model as its files are now; `models` contains it and its members."""
    return hash_model(name, models, lambda member: file_digests(models[member])).value


def hash_model(
    name: str, models: Mapping[str, Document[ModelSpec]], digests_of: Callable[[str], Mapping[str, str]]
) -> ModelHash:
    """Return the hash of a model, given the digests of the files of each model."""
    facts = {BUILDER: BUILDER_VERSION, **_content(name, models, digests_of)}
    return ModelHash(_hash_of(facts), {part: _hash_of(fact)[:12] for part, fact in facts.items() if fact})


def only_builder_changed(before: Mapping[str, str] | None, now: Mapping[str, str]) -> bool:
    """Return whether two hashes differ in the version of the build tooling alone: the artifact still fits."""
    return before is not None and {**before, BUILDER: ""} == {**now, BUILDER: ""}


def file_digests(document: Document[ModelSpec], files: ModelFiles | None = None) -> dict[str, str]:
    """Return the digest of each file of a model: of `files`, or else of those that it has now."""
    own, helpers, source = files or model_files(document)
    # Python modules of a source were once not packed; another name changes the hash.
    packs_code = isinstance(document.record.recipe, PythonRecipe)

    def named(name: str) -> str:
        return f"{'source-code' if packs_code and name.endswith(CODE_SUFFIX) else 'source'}/{name}"

    with cached_digests(document.file) as digests:
        return {
            **{name: digests.sha256(file) for name, file in own.items()},
            **{f"helpers/{name}": digests.sha256(file) for name, file in helpers.items()},
            **{named(name): digests.sha256(file) for name, file in source.items()},
        }


def _content(
    name: str, models: Mapping[str, Document[ModelSpec]], digests_of: Callable[[str], Mapping[str, str]]
) -> dict[str, object]:
    """Return what the user's repository decides."""
    spec = models[name].record
    return {
        "spec": spec.model_dump(mode="json", exclude={"description"}, exclude_defaults=True),
        "files": digests_of(name),
        "members": {
            member: _hash_of(_content(member, models, digests_of)) for member in sorted(spec.members)
        },
    }


def _hash_of(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
