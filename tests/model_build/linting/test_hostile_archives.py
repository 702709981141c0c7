"""Hostile archives: nothing outside a private folder is written, and time and memory stay bounded."""

import gzip
import io
import tarfile
import tempfile
from pathlib import Path

import pytest

from model_build.errors import ResourceError
from model_build.linting import check
from tests.model_build.linting.given_repositories import (
    CUT,
    PYTHON,
    SINGLE,
    assert_finding,
    findings,
    write,
)
from tritonstack.base.errors import UsageError

SOFT, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary folders."""
    folder = tmp_path / "private"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def archive(folder: Path, *members: tarfile.TarInfo) -> Path:
    file = folder / "model.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for name, text in SINGLE.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return file


def entry(name: str, *, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, target, size
    return member


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (entry("../outside"), "unsafe name '../outside'"),
        (entry("/tmp/outside"), "unsafe name '/tmp/outside'"),  # noqa: S108 - never written
        (entry("scores/1/../../../outside"), "unsafe name 'scores/1/../../../outside'"),
        (entry("scores/1/$(id)"), "unsafe name 'scores/1/$(id)'"),
        (entry("scores/1/a", kind=SOFT, target="/x"), "scores/1/a is a link to /x, outside the archive"),
        (entry("scores/1/a", kind=HARD, target="/x"), "scores/1/a is a hard link to /x, outside the archive"),
        (entry("scores/1/pipe", kind=tarfile.FIFOTYPE), "scores/1/pipe is not a file or folder"),
        (entry("scores/1/disk", kind=tarfile.BLKTYPE), "scores/1/disk is not a file or folder"),
        (entry("scores/1/model.onnx"), "duplicate entry scores/1/model.onnx"),
    ],
)  # fmt: skip
def test_entries_that_are_not_allowed(tmp_path, private, member, message):
    file = archive(tmp_path, member)
    assert [(finding.code, finding.message) for finding in findings(file)] == [("TS410", message)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.tar.gz", "private"]
    assert list(private.iterdir()) == []


def test_the_list_of_entries_that_are_not_allowed_ends(tmp_path):
    file = archive(tmp_path, *(entry(f"../{number}") for number in range(check.LISTED_ENTRIES + 9)))
    assert len(findings(file)) == check.LISTED_ENTRIES + 1


def test_an_archive_made_to_fill_disks(tmp_path, private, monkeypatch):
    monkeypatch.setattr(check, "SMALL_BYTES", 1 << 16)
    file = archive(tmp_path, entry("scores/1/zeros", size=50_000_000))
    assert_finding(file, "error TS410 {path} - size limit")
    assert list(private.iterdir()) == []


def test_a_full_disk_is_no_finding(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "free_space", lambda folder: 1000)
    with pytest.raises(ResourceError, match="0 MiB") as caught:
        findings(archive(tmp_path, entry("scores/1/weights", size=1 << 20)))
    assert "TMPDIR" in (caught.value.remedy or "")


def test_a_header_that_would_fill_memory(tmp_path):
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 500_000_000
    file = tmp_path / "model.tar.gz"
    with gzip.open(file, "wb") as stream:
        stream.write(header.tobuf(tarfile.USTAR_FORMAT))
        stream.write(bytes(1 << 20))
    assert_finding(file, "error TS410 {path} - 500000000 bytes")


@pytest.mark.parametrize("nested", [False, True], ids=["archive", "environment"])
def test_headers_without_end(tmp_path, nested):
    header = tarfile.TarInfo("x")
    header.type = tarfile.GNUTYPE_LONGNAME
    file = tmp_path / "model.tar.gz"
    if nested:
        text = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/e" } }'
        file = write(tmp_path / "given", {**CUT, "cut/config.pbtxt": PYTHON + text}) / "cut/e"
    with gzip.open(file, "wb") as stream:
        stream.write(header.tobuf(tarfile.GNU_FORMAT) * 5000)
    (finding,) = findings(tmp_path / "given" if nested else file)
    assert "recursion depth" in finding.message


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip", b"\x1f\x8b broken"])
def test_other_files(tmp_path, content):
    file = tmp_path / "model.tar.gz"
    file.write_bytes(content)
    (finding,) = findings(file)
    assert (finding.code, finding.file) == ("TS410", file)
    assert "fetch it again" in (finding.remedy or "")


def test_a_configuration_of_any_size_is_not_read(tmp_path):
    folder = tmp_path / "given/scores/1"
    folder.mkdir(parents=True)
    (folder / "model.onnx").touch()
    with (folder.parent / "config.pbtxt").open("wb") as file:
        file.truncate(8 << 30)
    assert_finding(tmp_path / "given", "error TS316 scores/config.pbtxt - 1 MiB")


def test_no_file_is_a_wrong_argument(tmp_path):
    with pytest.raises(UsageError, match=r"none\.tar\.gz"):
        findings(tmp_path / "none.tar.gz")
