"""List the files of a folder; reject links that leave it, loops, and special files."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tritonstack.base.source_files import UnsafeFileError, copy_file, find_file, list_files, require_same


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A source with a file, a folder, and link targets outside of it."""
    source = tmp_path / "model" / "weights"
    (source / "inner").mkdir(parents=True)
    (source / "a.bin").write_bytes(b"a")
    (source / "inner" / "b.bin").write_bytes(b"b")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key.py").write_text("secret")
    return source


def link(folder: Path, name: str, target: str) -> None:
    (folder / name).symlink_to(target)


def chain_out(folder: Path) -> None:
    link(folder, "one", "two")
    link(folder, "two", "inner/three")
    link(folder, "inner/three", "../../../secret")


def hidden_chain(folder: Path) -> None:
    """A link whose target path is inside the folder, through a link that leads out of it."""
    link(folder, "door", "../../secrets")
    link(folder, "x", "door/key.py")


def bind_socket(folder: Path) -> None:
    os.chdir(folder)  # the path of a socket is short
    socket.socket(socket.AF_UNIX).bind("talk")


REJECTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "an absolute link": (lambda f: link(f, "x", "/etc/passwd"), "x is a link .*absolute.* /etc/passwd"),
    "an absolute link inside": (lambda f: link(f, "x", str(f / "a.bin")), "x is a link .*absolute"),
    "a link out": (lambda f: link(f, "x", "../../secret"), "x is a link out"),
    "a link to a folder outside": (lambda f: link(f, "x", "../../secrets"), "x is a link out"),
    "a chain that ends outside": (chain_out, "is a link out"),
    "a chain through a folder": (hidden_chain, "is a link out"),
    "out and in again": (lambda f: link(f, "x", "../../model/weights/a.bin"), "x is a link out"),
    "a link to itself": (lambda f: link(f, "x", "x"), "x .*loop"),
    "a link to its own folder": (lambda f: link(f, "inner/up", "../inner"), "inner/up .*contains it"),
    "a link to the source": (lambda f: link(f, "inner/up", ".."), "inner/up .*contains it"),
    "a broken link": (lambda f: link(f, "x", "nowhere"), "x .*broken"),
    "a named pipe": (lambda f: os.mkfifo(f / "pipe"), "pipe .*named pipe"),
    "a socket": (bind_socket, "talk .*socket"),
    "a device": (lambda f: link(f, "x", "../../../../../../../../../../dev/null"), "x is a link out"),
}


@pytest.mark.parametrize("kind", REJECTED)
def test_unsafe_files_are_rejected(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    make, message = REJECTED[kind]
    make(folder)
    with pytest.raises(UnsafeFileError, match=message) as caught:
        list_files(folder)
    assert caught.value.remedy or "cannot read" in message


def test_links_within_the_folder_are_followed(folder: Path) -> None:
    link(folder, "x", "inner/y")
    link(folder, "inner/y", "../a.bin")
    link(folder, "again", "inner")
    files = list_files(folder)
    assert list(files) == ["a.bin", "again/b.bin", "again/y", "inner/b.bin", "inner/y", "x"]
    assert files["x"].path == files["a.bin"].path


def hub_snapshot(cache: Path) -> Path:
    """A snapshot in huggingface_hub's cache layout."""
    model = cache / "models--org--name"
    (model / "blobs").mkdir(parents=True)
    (model / "blobs" / "0123").write_text("{}")
    snapshot = model / "snapshots" / "c0ffee"
    (snapshot / "1_Pooling").mkdir(parents=True)
    link(snapshot, "config.json", "../../blobs/0123")
    link(snapshot, "1_Pooling/config.json", "../../../blobs/0123")
    return snapshot


def test_a_snapshot_of_a_hub_cache_links_to_its_blobs(tmp_path: Path) -> None:
    snapshot = hub_snapshot(tmp_path)
    assert list(list_files(snapshot)) == ["1_Pooling/config.json", "config.json"]
    assert list(list_files(snapshot / "1_Pooling")) == ["config.json"]


@pytest.mark.parametrize(
    "target", ["../../../models--org--other/blobs/0123", "../../refs", "../../../../secret"]
)
def test_snapshot_links_only_to_its_blobs(tmp_path: Path, target: str) -> None:
    snapshot = hub_snapshot(tmp_path / "cache")
    hub_snapshot(tmp_path / "cache2").parents[1].rename(tmp_path / "cache" / "models--org--other")
    (snapshot.parents[1] / "refs").write_text("c0ffee")
    (tmp_path / "secret").write_text("secret")
    link(snapshot, "x", target)
    with pytest.raises(UnsafeFileError, match="x is a link out"):
        list_files(snapshot)


def test_a_blob_that_is_a_link_itself(tmp_path: Path) -> None:
    snapshot = hub_snapshot(tmp_path)
    link(snapshot.parents[1] / "blobs", "4567", "/etc/passwd")
    link(snapshot, "x", "../../blobs/4567")
    with pytest.raises(UnsafeFileError, match="/etc/passwd"):
        list_files(snapshot)


def test_ignored_names_are_not_read(folder: Path) -> None:
    for name in (".git", "__pycache__", ".venv"):
        (folder / name).mkdir()
        link(folder, f"{name}/python", "/usr/bin/python3")
    (folder / "a.pyc").write_bytes(b"")
    assert list(list_files(folder)) == ["a.bin", "inner/b.bin"]


def test_a_link_swapped_between_listing_and_copying(folder: Path) -> None:
    link(folder, "x", "a.bin")
    listed = list_files(folder)["a.bin"]
    (folder / "a.bin").unlink()
    link(folder, "a.bin", "/etc/passwd")
    with pytest.raises(UnsafeFileError, match=r"a\.bin changed"):
        copy_file(listed, folder.parent / "copy")
    assert not (folder.parent / "copy").exists()


def test_a_file_replaced_between_listing_and_copying(folder: Path) -> None:
    listed = list_files(folder)["a.bin"]
    (folder / "other").write_bytes(b"z")
    (folder / "other").replace(folder / "a.bin")
    with pytest.raises(UnsafeFileError, match=r"a\.bin changed"):
        copy_file(listed, folder.parent / "copy")


def test_pipe_instead_of_a_file_does_not_block(folder: Path) -> None:
    listed = list_files(folder)["a.bin"]
    (folder / "a.bin").unlink()
    os.mkfifo(folder / "a.bin")
    with pytest.raises(UnsafeFileError, match=r"a\.bin changed"):
        copy_file(listed, folder.parent / "copy")


@pytest.mark.parametrize("change", ["write", "add", "remove"])
def test_changes_since_the_listing(folder: Path, change: str) -> None:
    before = list_files(folder)
    require_same(before, list_files(folder))
    if change == "write":
        (folder / "a.bin").write_bytes(b"ab")
    elif change == "add":
        (folder / "new").write_bytes(b"")
    else:
        (folder / "a.bin").unlink()
    with pytest.raises(UnsafeFileError, match="changed"):
        require_same(before, list_files(folder))


def test_one_file(folder: Path) -> None:
    link(folder, "out", "../../secret")
    assert find_file(folder, "nothing") is None
    assert (found := find_file(folder, "inner/b.bin")) is not None
    assert found.size == 1
    with pytest.raises(UnsafeFileError, match="out is a link"):
        find_file(folder, "out")
    with pytest.raises(UnsafeFileError, match="inner is a"):
        find_file(folder, "inner")


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert not list_files(tmp_path / "nowhere")
