"""Archives that must not be unpacked, and those that must."""

import gzip
import io
import tarfile

import pytest

from local_cloud.sagemaker import artifacts
from local_cloud.sagemaker.artifacts import ArtifactError, unpack
from tests.local_cloud.sagemaker.cloud import short_id, tarball, tree

URL = "s3://b/model.tar.gz"


def unpacked(tmp_path, archive, **limits):
    file = tmp_path / "model.tar.gz"
    file.write_bytes(archive)
    root = tmp_path / "model"
    root.mkdir()
    unpack(file, to=root, url=URL, checkpoint=lambda: None, **limits)
    return root


def one_member(name, *, kind=tarfile.REGTYPE, link="", size=0):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, link, size
        tar.addfile(info, io.BytesIO(b"\0" * size))
    return gzip.compress(buffer.getvalue(), mtime=0)


def test_a_repository_is_unpacked_as_it_is(tmp_path):
    root = unpacked(tmp_path, tarball({"m/config.pbtxt": "x", "m/1/model.onnx": b"\0", "./n/1/.keep": ""}))
    assert tree(root) == ["m", "m/1", "m/1/model.onnx", "m/config.pbtxt", "n", "n/1", "n/1/.keep"]


def test_empty_folders_survive(tmp_path):
    assert tree(unpacked(tmp_path, one_member("ensemble/1", kind=tarfile.DIRTYPE))) == [
        "ensemble",
        "ensemble/1",
    ]


def test_a_link_within_the_archive_is_kept(tmp_path):
    root = unpacked(tmp_path, one_member("m/link", kind=tarfile.SYMTYPE, link="1/model.onnx"))
    assert (root / "m/link").is_symlink()


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (one_member("../outside"), "leads out of the archive"),
        (one_member("m/../../outside"), "leads out of the archive"),
        (one_member("/etc/passwd"), "is an absolute path"),
        (one_member("m/" * 3000 + "f"), "folders deep"),
        (one_member("m/link", kind=tarfile.SYMTYPE, link="../../outside"), "outside the destination"),
        (one_member("m/link", kind=tarfile.SYMTYPE, link="/etc/passwd"), "is an absolute path"),
        (one_member("m/link", kind=tarfile.LNKTYPE, link="../outside"), "outside the destination"),
        (one_member("m/device", kind=tarfile.CHRTYPE), "special file"),
        (one_member("m/pipe", kind=tarfile.FIFOTYPE), "special file"),
        (one_member("m/$(touch x)/1"), "holds more than letters, digits"),
        (one_member("m/a b"), "holds more than letters, digits"),
        (one_member("m/a;b"), "holds more than letters, digits"),
        (one_member("m/ü"), "holds more than letters, digits"),
        (one_member("m/link", kind=tarfile.SYMTYPE, link="a b"), "holds more than letters, digits"),
    ],
    ids=short_id,
)
def test_what_reaches_outside_or_misleads_a_shell_is_refused(tmp_path, archive, words):
    with pytest.raises(ArtifactError, match=words) as caught:
        unpacked(tmp_path, archive)
    assert f'Refused to unpack the model data at "{URL}"' in caught.value.message
    assert tree(tmp_path / "model") in ([], ["m"])
    assert tree(tmp_path) == ["model", "model.tar.gz"]


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path):
    archive = one_member("m/zeros", size=50_000_000)
    assert len(archive) < 100_000
    with pytest.raises(ArtifactError, match="unpacks to more than this machine allows"):
        unpacked(tmp_path, archive, limit_bytes=49_999_999)
    assert tree(tmp_path / "model") == []


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts, "MEMBER_LIMIT", 2)
    with pytest.raises(ArtifactError, match="more than 2 members"):
        unpacked(tmp_path, tarball({"a": "", "b": "", "c": ""}))


GOOD = tarball({"m/1/model.onnx": b"\1\2\3" * 50_000})


@pytest.mark.parametrize(
    "archive",
    [b"", b"no archive", GOOD[:200], GOOD[:-20], GOOD[:100] + b"\xff" * 40 + GOOD[140:], b"PK\3\4zip"],
    ids=short_id,
)
def test_what_is_no_archive_is_named_as_aws_names_it(tmp_path, archive):
    with pytest.raises(ArtifactError, match="Failed to extract model data archive from URL"):
        unpacked(tmp_path, archive)


def test_long_work_can_be_ended(tmp_path):
    class EndedError(Exception):
        pass

    def checkpoint():
        raise EndedError

    (tmp_path / "a.tar.gz").write_bytes(GOOD)
    with pytest.raises(EndedError):
        unpack(tmp_path / "a.tar.gz", to=tmp_path, url=URL, checkpoint=checkpoint)


def test_a_damaged_byte_is_found_even_where_everything_unpacks(tmp_path):
    """The members can be whole tar-wise while the stream's checksum says that a byte has changed."""
    archive = bytearray(gzip.compress(gzip.decompress(tarball({"m/1/model.onnx": b"x" * 5000})), 0))
    archive[archive.index(b"x" * 50) + 20] ^= 1
    with pytest.raises(ArtifactError, match="Failed to extract model data archive"):
        unpacked(tmp_path, bytes(archive))
