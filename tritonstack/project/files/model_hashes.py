"""Hash everything in the repository that a model's artifact depends on.

The hash changes when the artifact must be rebuilt: with model.yaml (except its description), the files that
the build reads, Python modules beside the model's code, a `file://` source, and the members of an ensemble.
Everything else has an exact version in model.yaml.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from tritonstack.base.yaml import Document
from tritonstack.project.files.digests import cached_digests
from tritonstack.project.files.model_files import CODE_SUFFIX, model_files
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import PythonRecipe

BUILDER_VERSION = 7
"""Incremented when model_build produces other bytes from the same model.yaml. Builds then replace artifacts;
until then, locked artifacts stay deployable."""
BUILDER = "builder"


def model_hash(name: str, models: Mapping[str, Document[ModelSpec]]) -> str:
    """Return the hash of a model; `models` contains it and its members."""
    return _hash_of(_facts(name, models))


def hash_parts(name: str, models: Mapping[str, Document[ModelSpec]]) -> dict[str, str]:
    """Return the shortened parts of a model's hash, which show what has changed."""
    return {part: _hash_of(fact)[:12] for part, fact in _facts(name, models).items() if fact}


def only_builder_changed(before: Mapping[str, str] | None, now: Mapping[str, str]) -> bool:
    """Return whether two hashes differ in the version of the build tooling alone: the artifact still fits."""
    return before is not None and {**before, BUILDER: ""} == {**now, BUILDER: ""}


def _facts(name: str, models: Mapping[str, Document[ModelSpec]]) -> dict[str, object]:
    return {BUILDER: BUILDER_VERSION, **_content(name, models)}


def _content(name: str, models: Mapping[str, Document[ModelSpec]]) -> dict[str, object]:
    """Return what the user's repository decides."""
    document = models[name]
    spec = document.record
    return {
        "spec": spec.model_dump(mode="json", exclude={"description"}, exclude_defaults=True),
        "files": dict(_own_files(document)),
        "members": {member: _hash_of(_content(member, models)) for member in sorted(spec.members)},
    }


def _hash_of(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _own_files(document: Document[ModelSpec]) -> Iterator[tuple[str, str]]:
    files = model_files(document)
    # Python modules of a source were once not packed; another name changes the hash.
    packs_code = isinstance(document.record.recipe, PythonRecipe)
    with cached_digests(document.file) as digests:
        yield from ((name, digests.sha256(file)) for name, file in sorted(files.own.items()))
        yield from ((f"helpers/{name}", digests.sha256(file)) for name, file in files.helpers.items())
        for name, file in files.source.items():
            is_code = packs_code and name.endswith(CODE_SUFFIX)
            yield f"{'source-code' if is_code else 'source'}/{name}", digests.sha256(file)
