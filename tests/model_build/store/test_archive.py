"""Packing the same content gives the same bytes, and unpacking trusts nothing."""

import errno
import gzip
import hashlib
import io
import os
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
from isal import igzip_threaded

from model_build.errors import ArchiveError
from model_build.store import archive
from model_build.store.archive import BLOCK, LEVEL, GzipStream, is_safe_name, pack, unpack, unpack_own


def fill(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode() * 70_000)
    return folder


def test_same_content_gives_same_bytes(tmp_path):
    names = ["b/2.txt", "a/1.bin", "a.txt", "a/z/3"]
    first = pack(fill(tmp_path / "one", names), tmp_path / "one.tar.gz")
    other = fill(tmp_path / "elsewhere" / "two", names[::-1])
    (other / "a.txt").chmod(0o600)
    os.utime(other / "a.txt", (1, 1))
    second = pack(other, tmp_path / "two.tar.gz")
    assert first.digest == second.digest
    assert first.digest == hashlib.sha256((tmp_path / "two.tar.gz").read_bytes()).hexdigest()
    assert [entry.path for entry in first.files] == sorted(names)


@pytest.mark.parametrize("name", ["a b", "$(id)", "x;y", "ü", "q'", "link"])
def test_unsafe_names_and_links_are_not_packed(tmp_path, name):
    folder = fill(tmp_path / "in", ["m/x" if name == "link" else f"m/{name}"])
    if name == "link":
        (folder / name).symlink_to("m/x")
    with pytest.raises(ArchiveError, match="a link" if name == "link" else "not allowed"):
        pack(folder, tmp_path / "a.tar.gz")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../b", "", ".", "a//b", "a/"])
def test_unsafe_paths(name):
    assert not is_safe_name(name)


@pytest.mark.parametrize("change", ["shorter", "longer", "gone"])
def test_a_file_that_changes_while_it_is_packed_is_reported(tmp_path, monkeypatch, change):
    """The change happens between the scan of a file and its reading."""
    file = fill(tmp_path / "in", ["m/x"]) / "m/x"
    look, add = os.fstat, archive._add

    def look_and_change(number: int) -> os.stat_result:
        status = look(number)
        os.truncate(file, 100 if change == "shorter" else 1_000_000)
        return status

    def add_what_is_gone(tar: tarfile.TarFile, folder: Path, path: Path) -> object:
        if path == file:
            path.unlink()
        return add(tar, folder, path)

    if change == "gone":
        monkeypatch.setattr(archive, "_add", add_what_is_gone)
    else:
        monkeypatch.setattr(archive.os, "fstat", look_and_change)
    with pytest.raises(ArchiveError, match="m/x changed"):
        pack(tmp_path / "in", tmp_path / "a.tar.gz")


def test_more_files_than_usual_are_unpacked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "USUAL_MEMBERS", 2)
    packed = pack(fill(tmp_path / "in", [f"m/{number}/x" for number in range(9)]), tmp_path / "a.tar.gz")
    unpack_own(packed, tmp_path / "out")
    with pytest.raises(ArchiveError, match="more than 2 files"):
        unpack(packed.file, tmp_path / "again", limit_bytes=packed.unpacked_bytes, limit_members=2)


def hostile(file: Path, member: tarfile.TarInfo, data: bytes = b"") -> Path:
    member.size = len(data)
    with tarfile.open(file, "w:gz") as tar:
        tar.addfile(member, io.BytesIO(data))
    return file


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../escape", tarfile.REGTYPE),
        ("a/../../escape", tarfile.REGTYPE),
        ("/abs", tarfile.REGTYPE),
        ("x", tarfile.SYMTYPE),
        ("x", tarfile.LNKTYPE),
        ("x", tarfile.CHRTYPE),
        ("x", tarfile.BLKTYPE),
        ("x", tarfile.FIFOTYPE),
        ("$(id)", tarfile.REGTYPE),
        ("a;b", tarfile.DIRTYPE),
        ("a b", tarfile.REGTYPE),
        ("a/" * 3000 + "x", tarfile.REGTYPE),
    ],
)
def test_hostile_members_are_rejected(tmp_path, name, kind):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    with pytest.raises(ArchiveError):
        unpack(hostile(tmp_path / "h.tar.gz", member), tmp_path / "out", limit_bytes=10)
    assert not (tmp_path / "escape").exists()
    assert list(tmp_path.glob("out/*")) == []


def test_a_bomb_is_rejected(tmp_path):
    file = hostile(tmp_path / "h.tar.gz", tarfile.TarInfo("big"), b"0" * 1000)
    with pytest.raises(ArchiveError, match="size limit"):
        unpack(file, tmp_path / "out", limit_bytes=999)


def several(file: Path, *members: tuple[str, bytes], headers: dict[str, str] | None = None) -> Path:
    with tarfile.open(file, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(data), headers or {}
            tar.addfile(member, io.BytesIO(data))
    return file


@pytest.mark.parametrize("second", ["m/x", "./m/x"])
def test_a_duplicate_name_is_rejected(tmp_path, second):
    file = several(tmp_path / "h.tar.gz", ("m/x", b"good"), (second, b"evil"))
    with pytest.raises(ArchiveError, match="duplicate entry m/x"):
        unpack(file, tmp_path / "out", limit_bytes=100)
    assert (tmp_path / "out/m/x").read_bytes() == b"good"


def test_too_many_members_are_rejected(tmp_path):
    file = several(tmp_path / "h.tar.gz", *((f"m/{number}", b"") for number in range(6)))
    unpack(file, tmp_path / "all", limit_bytes=10, limit_members=6)
    with pytest.raises(ArchiveError, match="more than 5 files"):
        unpack(file, tmp_path / "out", limit_bytes=10, limit_members=5)


def test_a_header_that_would_fill_the_memory_is_rejected(tmp_path):
    file = several(tmp_path / "h.tar.gz", ("x", b""), headers={"comment": "0" * 5_000_000})
    assert file.stat().st_size < 20_000
    with pytest.raises(ArchiveError, match="5000017 bytes"):
        unpack(file, tmp_path / "out", limit_bytes=10, limit_members=10)


def test_bytes_after_the_last_file_are_rejected(tmp_path):
    file = several(tmp_path / "h.tar.gz", ("x", b"1"))
    file.write_bytes(file.read_bytes() + gzip.compress(b"more"))
    with pytest.raises(ArchiveError, match="after its last"):
        unpack(file, tmp_path / "out", limit_bytes=10)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("size", [0, 1, BLOCK - 7, BLOCK - 6, 5 * BLOCK + 777])
@pytest.mark.parametrize("piece", [1000, BLOCK, 3 * BLOCK + 1])
def test_bytes_are_the_librarys_and_do_not_depend_on_threads(tmp_path, threads, size, piece):
    """Half random, half text. If an upgrade of isal changes the bytes, every digest changes."""
    content = b"header" + (np.random.default_rng(7).bytes(size // 2) + b"text " * size)[:size]
    with (tmp_path / "ours.gz").open("wb") as file, GzipStream(file, threads=threads) as stream:
        for begin in range(0, len(content), piece):
            stream.write(content[begin : begin + piece])
    with igzip_threaded.open(tmp_path / "theirs.gz", "wb", LEVEL, threads=2, block_size=BLOCK) as theirs:
        theirs.write(content)
    ours = (tmp_path / "ours.gz").read_bytes()
    assert ours == (tmp_path / "theirs.gz").read_bytes()
    assert gzip.decompress(ours) == content
    assert stream.digest == hashlib.sha256(ours).hexdigest()


def test_the_archive_is_what_tarfile_writes(tmp_path):
    """Names of more than 100 bytes, empty files and folders, and sizes at the borders of tar's blocks."""
    folder = fill(tmp_path / "in", ["m/1/x", "n" * 120 + "/y"])
    (folder / "empty").mkdir()
    for size in (0, 1, 511, 512, 513, 10_240):
        (folder / f"size-{size}").write_bytes(b"7" * size)
    packed = pack(folder, tmp_path / "a.tar.gz")
    expected = io.BytesIO()
    with tarfile.TarFile(fileobj=expected, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            if path.is_dir():
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(member)
            else:
                member.size = path.stat().st_size
                tar.addfile(member, io.BytesIO(path.read_bytes()))
    assert gzip.decompress(packed.file.read_bytes()) == expected.getvalue()


class FullDisk(io.BytesIO):
    """Fail with the sixth write."""

    writes = 0

    def write(self, data: object) -> int:
        self.writes += 1
        if self.writes == 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("blocks", [4, 40])
def test_a_full_disk_ends_the_stream_and_its_threads(blocks):
    """The disk is full at the last bytes, or while blocks are under way."""
    before, content = threading.active_count(), np.random.default_rng(7).bytes(blocks * BLOCK)
    with pytest.raises(OSError, match="No space"), GzipStream(FullDisk(), threads=2) as stream:
        stream.write(content)
    assert threading.active_count() == before


@pytest.mark.parametrize("damage", ["cut", "flip", "text"])
def test_damaged_archives_are_rejected(tmp_path, damage):
    packed = pack(fill(tmp_path / "in", ["m/x", "m/y"]), tmp_path / "a.tar.gz")
    data = bytearray(packed.file.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 0xFF
    contents = {"cut": bytes(data[:-200]), "flip": bytes(data), "text": b"text"}
    packed.file.write_bytes(contents[damage])
    with pytest.raises(ArchiveError, match="unpacked"):
        unpack(packed.file, tmp_path / "out", limit_bytes=packed.unpacked_bytes)


def test_unpacking_works_on_old_python_and_drops_owner_and_special_bits(tmp_path, monkeypatch):
    """The Python of Ubuntu 22.04 has no filters: its `extract` rejects the argument."""
    member = tarfile.TarInfo("model/run.sh")
    member.mode, member.uid = 0o6777, 12345
    file = hostile(tmp_path / "model.tar.gz", member, b"echo")

    def reject(*_: object, **__: object) -> None:
        raise TypeError("unexpected keyword argument 'filter'")

    monkeypatch.setattr(tarfile.TarFile, "extract", reject)
    unpack(file, tmp_path / "out", limit_bytes=100)
    status = (tmp_path / "out/model/run.sh").stat()
    assert (status.st_mode & 0o7777, status.st_uid) == (0o755, os.getuid())
