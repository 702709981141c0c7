"""Staging folders: what a killed process leaves is removed, and no folder that is in use."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tritonstack.base.files import only_writer, remove_abandoned, staging_folder, write_atomically

HOLDING = """\
import sys, time
from pathlib import Path
from tritonstack.base.files import staging_folder

with staging_folder(Path(sys.argv[1]), ".new-") as folder:
    (folder / "half").write_text("written")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has begun to write a folder."""
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_folders_of_killed_processes_are_removed(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    assert other.stdout is not None
    theirs = Path(other.stdout.readline().strip())
    with staging_folder(tmp_path, ".new-") as ours:
        remove_abandoned(tmp_path, ".new-")
        assert {*tmp_path.iterdir()} == {ours, theirs}  # both are in use
    assert [*tmp_path.iterdir()] == [theirs]
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert (theirs / "half").is_file()
    with staging_folder(tmp_path, ".new-") as ours:
        assert [*tmp_path.iterdir()] == [ours]
    assert not any(tmp_path.iterdir())


def test_files_and_other_names_are_kept(tmp_path: Path) -> None:
    (tmp_path / ".new-file").write_text("mine")
    (tmp_path / "new").mkdir()
    remove_abandoned(tmp_path, ".new-")
    remove_abandoned(tmp_path / "absent", ".new-")
    assert {file.name for file in tmp_path.iterdir()} == {".new-file", "new"}
    with pytest.raises(RuntimeError), staging_folder(tmp_path / "made", ".new-"):
        raise RuntimeError
    assert not any((tmp_path / "made").iterdir())


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(mode)
    write_atomically(file, b"new")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", mode)


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "file"
    target.write_text("old")
    (tmp_path / "link").symlink_to("folder/file")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert target.read_text() == "new"
    assert {*tmp_path.rglob("*")} == {tmp_path / "folder", tmp_path / "link", target}


def test_a_lock_that_does_not_wait(tmp_path: Path) -> None:
    again = only_writer(tmp_path, wait=False)
    with only_writer(tmp_path, wait=False), pytest.raises(BlockingIOError), again:
        pass
    with only_writer(tmp_path, wait=False):
        assert tmp_path.is_dir()
