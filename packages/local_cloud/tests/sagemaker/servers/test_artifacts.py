"""Unpack safe archives; reject unsafe ones."""

import gzip
import io
import tarfile

import pytest

from packages.local_cloud.tests.sagemaker.cloud import short_id, tree
from packages.local_cloud.tests.sagemaker.fakes import tarball
from tritonstack_local.sagemaker.servers import artifacts
from tritonstack_local.sagemaker.servers.artifacts import ArtifactError, Space, unpack

URL = "s3://b/model.tar.gz"


def unpacked(tmp_path, archive, limit_bytes=None):
    tmp_path.mkdir(exist_ok=True)
    file = tmp_path / "model.tar.gz"
    file.write_bytes(archive)
    root = tmp_path / "model"
    root.mkdir()
    unpack(file, to=root, url=URL, checkpoint=lambda: None, space=Space(limit_bytes))
    return root


def one_member(name, *, kind=tarfile.REGTYPE, link="", size=0):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, link, size
        tar.addfile(info, io.BytesIO(b"\0" * size))
    return gzip.compress(buffer.getvalue(), mtime=0)


def test_a_repository_is_unpacked_unchanged(tmp_path):
    root = unpacked(tmp_path, tarball({"m/config.pbtxt": "x", "m/1/model.onnx": b"\0", "./n/1/.keep": ""}))
    assert tree(root) == ["m", "m/1", "m/1/model.onnx", "m/config.pbtxt", "n", "n/1", "n/1/.keep"]


def test_empty_folders_survive(tmp_path):
    assert tree(unpacked(tmp_path, one_member("ensemble/1", kind=tarfile.DIRTYPE))) == [
        "ensemble",
        "ensemble/1",
    ]


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (one_member("../outside"), "leads out of the archive"),
        (one_member("m/../../outside"), "leads out of the archive"),
        (one_member("/etc/passwd"), "leads out of the archive"),
        (one_member("m/" * 200 + "f"), "folders deep"),
        (one_member("x" * 1025), "longer than 1024 characters"),
        (one_member("m/link", kind=tarfile.SYMTYPE, link="1/model.onnx"), "a link or a special file"),
        (one_member("m/link", kind=tarfile.LNKTYPE, link="m/1/model.onnx"), "a link or a special file"),
        (one_member("m/device", kind=tarfile.CHRTYPE), "a link or a special file"),
        (one_member("m/pipe", kind=tarfile.FIFOTYPE), "a link or a special file"),
        (one_member("m/$(touch x)/1"), "holds more than letters, digits"),
        (one_member("m/a b"), "holds more than letters, digits"),
        (one_member("m/ü"), "holds more than letters, digits"),
    ],
    ids=short_id,
)
def test_unsafe_members_are_rejected(tmp_path, archive, words):
    with pytest.raises(ArtifactError, match=words) as caught:
        unpacked(tmp_path, archive)
    assert URL in caught.value.message
    assert tree(tmp_path) == ["model", "model.tar.gz"]


def test_a_decompression_bomb_is_rejected_before_it_fills_the_disk(tmp_path):
    archive = one_member("m/zeros", size=50_000_000)
    assert len(archive) < 100_000
    with pytest.raises(ArtifactError, match="does not fit"):
        unpacked(tmp_path, archive, limit_bytes=49_999_999)
    assert tree(tmp_path / "model") == []


def members(*described):
    """Pack empty members, given by name and type."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind in described:
            info = tarfile.TarInfo(name)
            info.type = kind
            tar.addfile(info)
    return gzip.compress(buffer.getvalue(), mtime=0)


FILE, FOLDER = tarfile.REGTYPE, tarfile.DIRTYPE


@pytest.mark.parametrize(
    "described",
    [
        [("f", FILE), ("m", FOLDER), ("f", FILE)],
        [("./f", FILE), ("f", FILE)],
        [("f", FILE), ("f", FOLDER)],
        [("f", FOLDER), ("f", FILE)],
        [("f", FILE), ("f/g", FILE)],
    ],
)
def test_only_folders_come_twice(tmp_path, described):
    with pytest.raises(ArtifactError, match="Failed to extract"):
        unpacked(tmp_path, members(*described))


def test_repeated_folders_behave_as_in_tar(tmp_path):
    assert tree(unpacked(tmp_path, members(("m", FOLDER), ("m/f", FILE), ("m", FOLDER)))) == ["m", "m/f"]


def with_field(field, value):
    """Pack a file with an extended header field."""
    info = tarfile.TarInfo("m/weights")
    info.pax_headers = {field: value}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info)
    return gzip.compress(buffer.getvalue())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("comment", "x" * 5000),
        ("x" * 5000, "1"),
        ("path", "x" * 5000),
        ("linkpath", "x" * 5000),
        ("size", "-5"),
    ],
    ids=lambda value: value[:12],
)
def test_oversized_header_fields_are_rejected(tmp_path, field, value):
    with pytest.raises(ArtifactError):
        unpacked(tmp_path, with_field(field, value))
    assert tree(tmp_path / "model") in ([], ["m"])


@pytest.mark.parametrize(("field", "value"), [("mtime", "1e400"), ("mtime", "-1"), ("uid", "9" * 400)])
def test_owners_and_times_are_not_preserved(tmp_path, field, value):
    assert tree(unpacked(tmp_path, with_field(field, value))) == ["m", "m/weights"]


def test_a_truncated_archive_is_rejected(tmp_path):
    """The compressed stream is intact; only its content is truncated or damaged."""
    plain = gzip.decompress(tarball({"a": "x" * 600, "b": "y"}))
    for number, length in enumerate((300, 512, 700, 1536, 1800, 2048, 2400, 2560)):
        with pytest.raises(ArtifactError, match="Failed to extract"):
            unpacked(tmp_path / str(number), gzip.compress(plain[:length]))
    damaged = plain[:1536] + b"\xff" * 100 + plain[1636:]
    with pytest.raises(ArtifactError, match="truncated"):
        unpacked(tmp_path / "damaged", gzip.compress(damaged))


def test_a_sparse_file_is_rejected(tmp_path):
    info = tarfile.TarInfo("m/weights")
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,10"}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info)
    with pytest.raises(ArtifactError, match="is a sparse file"):
        unpacked(tmp_path, gzip.compress(buffer.getvalue()))


def header(name, kind, size):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(format=tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE], ids=["long name", "pax"])
def test_header_length_is_bounded(tmp_path, kind):
    archive = gzip.compress(header("m", kind, 1 << 30) + bytes(2 << 20))
    with pytest.raises(ArtifactError, match="larger than 1 MiB"):
        unpacked(tmp_path, archive)


def test_endless_headers_are_rejected(tmp_path):
    archive = gzip.compress((header("m", tarfile.GNUTYPE_LONGNAME, 2) + b"ab".ljust(512, b"\0")) * 900)
    with pytest.raises(ArtifactError):
        unpacked(tmp_path, archive)


def test_a_negative_size_is_rejected(tmp_path):
    info = tarfile.TarInfo("m")
    info.pax_headers = {"size": "-1024"}
    archive = info.tobuf(format=tarfile.PAX_FORMAT) + bytes(10_240)
    with pytest.raises(ArtifactError, match="a size"):
        unpacked(tmp_path, gzip.compress(archive))


def test_endless_padding_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts, "PADDING_LIMIT_BYTES", 1 << 20)
    archive = gzip.compress(gzip.decompress(tarball({"a": "x"})) + bytes(2 << 20))
    with pytest.raises(ArtifactError, match="last member"):
        unpacked(tmp_path, archive)


def test_a_multi_member_gzip_archive_is_unpacked(tmp_path):
    plain = gzip.decompress(tarball({"a": "x", "b": "y"}))
    parts = gzip.compress(plain[:700]) + gzip.compress(plain[700:])
    assert tree(unpacked(tmp_path, parts)) == ["a", "b"]


def test_too_many_members_are_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts, "MEMBER_LIMIT", 2)
    with pytest.raises(ArtifactError, match="more than 2 members"):
        unpacked(tmp_path, tarball({"a": "", "b": "", "c": ""}))


GOOD = tarball({"m/1/model.onnx": b"\1\2\3" * 50_000})


@pytest.mark.parametrize(
    "archive",
    [b"", b"no archive", GOOD[:200], GOOD[:-20], GOOD[:100] + b"\xff" * 40 + GOOD[140:], b"PK\3\4zip"],
    ids=short_id,
)
def test_an_invalid_archive_has_awss_message(tmp_path, archive):
    with pytest.raises(ArtifactError, match="Failed to extract"):
        unpacked(tmp_path, archive)


def test_unpacking_can_be_cancelled(tmp_path):
    class EndedError(Exception):
        pass

    def checkpoint():
        raise EndedError

    (tmp_path / "a.tar.gz").write_bytes(GOOD)
    with pytest.raises(EndedError):
        unpack(tmp_path / "a.tar.gz", to=tmp_path, url=URL, checkpoint=checkpoint)


def test_a_damaged_byte_is_detected_even_if_unpacking_succeeds(tmp_path):
    """All members can be valid while the stream's checksum shows a changed byte."""
    archive = bytearray(gzip.compress(gzip.decompress(tarball({"m/1/model.onnx": b"x" * 5000})), 0))
    archive[archive.index(b"x" * 50) + 20] ^= 1
    with pytest.raises(ArtifactError, match="Failed to extract"):
        unpacked(tmp_path, bytes(archive))
