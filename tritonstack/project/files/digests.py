"""SHA-256 of files. Digests of large files are kept while the files are unchanged."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tritonstack.base.files import read_json, write_text_atomically
from tritonstack.base.paths import MARKER, Project
from tritonstack.base.source_files import SourceFile, open_file

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
