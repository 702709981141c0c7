"""A full disk or too little memory gives a clear error, and leaves nothing behind."""

import errno
import os
from pathlib import Path

import pytest

from model_build import resources
from model_build.build import build_model
from model_build.errors import ArchiveError, ResourceError
from model_build.resources import (
    available_memory,
    require_memory,
    require_space,
    shortages_explained,
)
from tests.model_build.builds.plain_model import write_plain_model
from tests.model_build.builds.test_build import nothing_is_left
from tests.model_build.tiny import write_model


def full(file: Path) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))


def test_too_little_space_or_memory_is_reported_with_numbers(tmp_path):
    require_space(tmp_path / "not/there/yet", 1, purpose="packing")
    with pytest.raises(ResourceError, match=r"packing .*1000000\.0 GB in .*; free: .*B"):
        require_space(tmp_path, 10**15, purpose="packing")
    assert 0 < available_memory() < 1 << 50
    with pytest.raises(ResourceError, match=r"exporting 'm' .*1000000\.0 GB of memory; available: .*B"):
        require_memory(10**15, purpose="exporting 'm'")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (full(Path("/place/file")), "disk is full: /place/file: "),
        (OSError(errno.ENOSPC, "No space", "/the/source", None, "/the/copy"), "disk is full: /the/copy: "),
        (MemoryError("for 5 GB"), "out of memory: for 5 GB"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory: DefaultCPU"),
    ],
)
def test_a_resource_shortage_is_explained(tmp_path, error, message):
    with pytest.raises(ResourceError, match=message), shortages_explained(tmp_path):
        raise error
    with pytest.raises(ResourceError, match=message), shortages_explained(tmp_path):
        raise ArchiveError("cannot be unpacked", remedy=None) from error


def test_full_disk_hidden_by_a_tool(tmp_path, monkeypatch):
    with pytest.raises(RuntimeError), shortages_explained(tmp_path):
        raise RuntimeError("the writer failed")
    monkeypatch.setattr(resources, "free_space", lambda _: 4096)
    with pytest.raises(ResourceError, match=r"full \(0\.0 MB left\): "), shortages_explained(tmp_path):
        raise RuntimeError("the writer failed")


def test_a_model_larger_than_memory_is_rejected_before_it_is_loaded(
    tmp_path, tiny_folder, folders, monkeypatch
):
    weights = sum(file.stat().st_size for file in tiny_folder.iterdir())
    monkeypatch.setattr(resources, "available_memory", lambda: 2 * weights)
    told: list[str] = []
    model = write_model(tmp_path, source=f"file://{tiny_folder}")
    with pytest.raises(ResourceError, match="'tiny' needs about"):
        build_model(model=model, folders=folders, on_progress=lambda progress: told.append(progress.step))
    assert set(told) == {"source"}
    assert nothing_is_left(folders)


@pytest.mark.usefixtures("plain_package")
def test_too_little_space_for_the_archive_is_reported_before_packing(tmp_path, folders, monkeypatch):
    monkeypatch.setattr(resources, "free_space", lambda _: 3_000_000)
    with pytest.raises(ResourceError, match=r"'plain' needs 4\.0 MB in .*free: 3\.0 MB"):
        build_model(model=write_plain_model(tmp_path / "model"), folders=folders)
    assert nothing_is_left(folders)


@pytest.mark.usefixtures("plain_package")
@pytest.mark.parametrize(
    "place",
    [
        "model_build.environments.packing._write",
        "model_build.environments.packing.archive.pack",
        "model_build.store.archive._add",
        "model_build.build.pack",
        "model_build.checking.archive_checks.unpack_own",
    ],
)
def test_full_disk_leaves_nothing(tmp_path, folders, monkeypatch, place):
    def full_disk(*_: object, **__: object) -> None:
        raise full(Path("file"))

    monkeypatch.setattr(place, full_disk)
    with pytest.raises(ResourceError, match="disk is full"):
        build_model(model=write_plain_model(tmp_path / "model"), folders=folders)
    assert nothing_is_left(folders)


def test_a_containers_limit_counts(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    monkeypatch.setattr(resources, "CGROUP", tmp_path)
    assert available_memory() == 3000
