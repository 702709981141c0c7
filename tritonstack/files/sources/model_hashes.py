"""Hash everything in the repository that a model's artifact depends on.

The hash changes when the artifact must be rebuilt: with model.yaml (except its description), the files that
the build reads, Python modules beside the model's code, a `file://` source, and the members of an ensemble.
Everything else has an exact version in model.yaml.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tritonstack.base.files import read_json, write_text_atomically
from tritonstack.base.paths import MARKER, Project
from tritonstack.base.source_files import SourceFile, open_file
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import PythonRecipe
from tritonstack.files.sources.model_files import CODE_SUFFIX, ModelFiles, model_files

KEPT_FROM_BYTES = 4 * 1024**2
SETTLED_NS = 2 * 10**9
"""A file that changed more recently than this may change again without a newer time stamp."""

Identity = list[int]
"""Device, inode, size, and the times of the last change of content and of status."""


@dataclass
class CachedDigests:
    """The digests of some large files."""

    known: dict[str, tuple[Identity, str]] = field(default_factory=dict)
    used: dict[str, tuple[Identity, str]] = field(default_factory=dict)

    def sha256(self, file: SourceFile) -> str:
        """Return the SHA-256 of a file; read it only if it is small or has changed."""
        with open_file(file) as stream:
            identity = _identity(stream.fileno())
            name = str(file.path)
            cached = self.known.get(name)
            if cached is not None and cached[0] == identity:
                self.used[name] = cached
                return cached[1]
            started = time.time_ns()
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            settled = max(identity[3:]) < started - SETTLED_NS and _identity(stream.fileno()) == identity
            if file.size >= KEPT_FROM_BYTES and settled:
                self.used[name] = (identity, digest)
        return digest


@contextmanager
def cached_digests(model_file: Path) -> Iterator[CachedDigests]:
    """Load the digests of a model, and save those that were used. Only projects keep them."""
    root = model_file.resolve().parents[2] if len(model_file.resolve().parents) > 2 else None
    if root is None or not (root / MARKER).is_file():
        yield CachedDigests()
        return
    with project_digests(Project(root), model_file.parent.name) as digests:
        yield digests


@contextmanager
def project_digests(project: Project, name: str) -> Iterator[CachedDigests]:
    """Load one list of a project's digests, and save those that were used."""
    file = project.cache_dir / "digests" / f"{name}.json"
    digests = CachedDigests(_load(file))
    yield digests
    if digests.used != digests.known:
        with suppress(OSError):  # a project that cannot be written to is still valid
            write_text_atomically(file, json.dumps(digests.used, indent=1))


def _load(file: Path) -> dict[str, tuple[Identity, str]]:
    try:
        data = read_json(file)
        return {str(name): (list(identity), str(digest)) for name, (identity, digest) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _identity(handle: int) -> Identity:
    status = os.fstat(handle)
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


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
