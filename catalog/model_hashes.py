"""A hash of everything in this repository that a model's artifact depends on.

It changes when the artifact has to be built again: with model.yaml (but for its description), with the files
beside it that the build reads, with a source that lies in this repository, and with the models of an
ensemble's steps. What lies elsewhere is named by an exact version in model.yaml.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from catalog.documents import Document
from catalog.errors import FileProblem, InvalidFilesError
from catalog.files import sha256_of
from catalog.models import ModelSpec

BUILDER_VERSION = 3
"""Raised when model_build makes other bytes from the same model.yaml."""


def model_hash(name: str, models: Mapping[str, Document[ModelSpec]]) -> str:
    """The hash of a model; `models` holds it and all that its steps name."""
    return _hash_of(_facts(name, models))


def hash_parts(name: str, models: Mapping[str, Document[ModelSpec]]) -> dict[str, str]:
    """What the hash of a model is made of, each part shortened: they tell what has changed."""
    return {part: _hash_of(fact)[:12] for part, fact in _facts(name, models).items() if fact}


def _facts(name: str, models: Mapping[str, Document[ModelSpec]]) -> dict[str, object]:
    document = models[name]
    spec = document.record
    return {
        "builder": BUILDER_VERSION,
        "spec": spec.model_dump(mode="json", exclude={"description"}, exclude_defaults=True),
        "files": dict(_own_files(document)),
        "members": {member: model_hash(member, models) for member in sorted(spec.members)},
    }


def _hash_of(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def missing_files(document: Document[ModelSpec]) -> Iterator[FileProblem]:
    """Files that a model's file names and that are not beside it."""
    folder = document.file.parent
    for name in document.record.own_files:
        if not (folder / name).is_file():
            yield FileProblem(
                document.file, None, "", f"there is no file {name} beside it", "add it, or correct its name"
            )


def _own_files(document: Document[ModelSpec]) -> Iterator[tuple[str, str]]:
    problems = list(missing_files(document))
    if problems:
        raise InvalidFilesError(problems)
    folder = document.file.parent
    for name in sorted(document.record.own_files):
        yield name, sha256_of(folder / name)
    source = document.record.source or ""
    if source.startswith("file://"):
        root = folder / source.removeprefix("file://")
        for file in sorted(path for path in root.rglob("*") if path.is_file()):
            yield f"source/{file.relative_to(root).as_posix()}", sha256_of(file)
