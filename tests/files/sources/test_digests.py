"""Digests of large files are reused while a file is unchanged, and never after a change."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from tests.projects import write_project
from tritonstack.base.source_files import find_file
from tritonstack.files.sources import model_hashes as digests
from tritonstack.files.sources.model_hashes import KEPT_FROM_BYTES, CachedDigests, cached_digests

OLD = time.time() - 3600


@pytest.fixture
def model(tmp_path, monkeypatch):
    """The model file of a project with one large file, last changed an hour ago."""
    monkeypatch.delenv("TRITONSTACK_HOME", raising=False)
    project = write_project(tmp_path)
    (project.root / "cdk.json").write_text("{}")
    file = project.model_file("minilm")
    weights = file.parent / "weights"
    weights.mkdir(exist_ok=True)
    (weights / "large").write_bytes(bytes(KEPT_FROM_BYTES))
    (weights / "small").write_bytes(b"small")
    monkeypatch.setattr(digests, "SETTLED_NS", -(10**12))  # a file's status time cannot be set back
    return file


def sha256_of(model: Path, name: str) -> str:
    file = find_file(model.parent / "weights", name)
    assert file is not None
    with cached_digests(model) as kept:
        return kept.sha256(file)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    reads: list[str] = []
    digest = hashlib.file_digest

    def counted(stream, kind):
        reads.append(Path(stream.name if isinstance(stream.name, str) else "?").name)
        return digest(stream, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return reads


def test_a_large_file_is_read_once(model, monkeypatch):
    reads = count_reads(monkeypatch)
    expected = hashlib.sha256(bytes(KEPT_FROM_BYTES)).hexdigest()
    assert [sha256_of(model, "large") for _ in range(3)] == [expected] * 3
    assert len(reads) == 1


def test_small_files_are_always_read(model, monkeypatch):
    reads = count_reads(monkeypatch)
    assert {sha256_of(model, "small") for _ in range(3)} == {hashlib.sha256(b"small").hexdigest()}
    assert len(reads) == 3


@pytest.mark.parametrize("keeps_times", [True, False])
def test_a_changed_file_is_read_again(model, keeps_times):
    file = model.parent / "weights" / "large"
    sha256_of(model, "large")
    before = file.stat()
    with file.open("r+b") as stream:
        stream.write(b"x")
    if keeps_times:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert sha256_of(model, "large") == hashlib.sha256(b"x" + bytes(KEPT_FROM_BYTES - 1)).hexdigest()


def test_a_file_that_just_changed_is_not_kept(model, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED_NS", 10**12)
    reads = count_reads(monkeypatch)
    for _ in range(2):
        sha256_of(model, "large")
    assert len(reads) == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"a": 1}', b"\xff"])
def test_a_damaged_cache_is_ignored(model, damage):
    sha256_of(model, "large")
    (cache,) = model.parents[2].glob(".tritonstack/cache/digests/*.json")
    cache.write_bytes(damage)
    assert sha256_of(model, "large") == hashlib.sha256(bytes(KEPT_FROM_BYTES)).hexdigest()


def test_nothing_is_written_outside_a_project(model):
    (model.parents[2] / "cdk.json").unlink()
    sha256_of(model, "large")
    assert not (model.parents[2] / ".tritonstack").exists()


def test_entries_of_removed_files_are_dropped(model):
    sha256_of(model, "large")
    with cached_digests(model) as kept:
        assert isinstance(kept, CachedDigests)
        assert len(kept.known) == 1
    with cached_digests(model) as kept:
        assert kept.known == {}
