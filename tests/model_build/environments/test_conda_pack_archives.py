"""conda-pack archives are used unchanged if they are valid."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from model_build.environments.given import accept_environment
from model_build.environments.packing import target_python
from model_build.errors import EnvironmentBuildError
from tritonstack.base.files import sha256_of

FILES = {
    "bin/activate": b"export PATH",
    "bin/python3.10": b"\x7fELF",
    "bin/conda-unpack": b"#!/bin/sh",
    "conda-meta/python-3.10.14-h955ad1f_0.json": b"{}",
    "conda-meta/scikit-learn-1.4.2-py310h1.json": b"{}",
    "lib/python3.10/site-packages/sklearn/__init__.py": b"",
}
LINKS = {"bin/python": "python3.10", "lib/libz.so": "../lib/libz.so.1"}


def write_archive(
    file: Path,
    *,
    files: Mapping[str, bytes] = FILES,
    links: Mapping[str, str] = LINKS,
    without: str = "",
    kind: bytes = tarfile.SYMTYPE,
) -> Path:
    with tarfile.open(file, "w:gz") as tar:
        for name, content in files.items():
            if name != without:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            tar.addfile(member)
    return file


def test_an_archive_is_used_unchanged_with_its_links(tmp_path):
    given = write_archive(tmp_path / "given.tar.gz")
    (tmp_path / "part").mkdir()
    report = accept_environment(given, file=tmp_path / "part/env.tar.gz")
    assert sha256_of(tmp_path / "part/env.tar.gz") == sha256_of(given) == report.sha256
    assert report.path == "part/env.tar.gz"
    assert report.packages == ("python==3.10.14", "scikit-learn==1.4.2")
    assert report.pythons == ("py310",)
    assert target_python(report, None) == "py310"
    assert report.unpacked_bytes == sum(map(len, FILES.values()))


@pytest.mark.parametrize("missing", ["bin/activate", "bin/conda-unpack"])
def test_archives_not_made_by_conda_pack_are_rejected(tmp_path, missing):
    given = write_archive(tmp_path / "given.tar.gz", without=missing)
    with pytest.raises(EnvironmentBuildError, match=f"missing: {missing}\n.*conda-pack --name"):
        accept_environment(given, file=tmp_path / "env.tar.gz")
    assert not (tmp_path / "env.tar.gz").exists()


def test_a_python_of_no_image_is_rejected(tmp_path):
    given = write_archive(
        tmp_path / "given.tar.gz",
        files={name.replace("3.10", "3.9"): content for name, content in FILES.items()},
        links={"bin/python": "python3.9"},
    )
    with pytest.raises(EnvironmentBuildError, match=r"has Python 3\.9; Triton's images have 3\.10"):
        accept_environment(given, file=tmp_path / "env.tar.gz")


@pytest.mark.parametrize(
    ("links", "kind"),
    [
        ({"bin/python": "/usr/bin/python3"}, tarfile.SYMTYPE),
        ({"bin/python": "../../outside"}, tarfile.SYMTYPE),
        ({"bin/python": "../outside"}, tarfile.LNKTYPE),
    ],
    ids=["absolute", "symbolic", "hard"],
)
def test_link_to_outside_is_rejected(tmp_path, links, kind):
    given = write_archive(tmp_path / "given.tar.gz", links=links, kind=kind)
    with pytest.raises(EnvironmentBuildError, match=r"points to .*outside the archive"):
        accept_environment(given, file=tmp_path / "env.tar.gz")


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "lib/../../evil"])
def test_a_path_outside_the_archive_is_rejected(tmp_path, name):
    given = write_archive(tmp_path / "given.tar.gz", files={**FILES, name: b""})
    with pytest.raises(EnvironmentBuildError, match="is outside the archive"):
        accept_environment(given, file=tmp_path / "env.tar.gz")


def test_device_file_is_rejected(tmp_path):
    given = write_archive(tmp_path / "given.tar.gz", links={"dev/zero": ""}, kind=tarfile.CHRTYPE)
    with pytest.raises(EnvironmentBuildError, match="is not a file, folder, or link"):
        accept_environment(given, file=tmp_path / "env.tar.gz")


def test_oversized_input_is_rejected(tmp_path, monkeypatch):
    given = write_archive(tmp_path / "given.tar.gz")
    monkeypatch.setattr("model_build.environments.given.LIMIT_MEMBERS", 3)
    with pytest.raises(EnvironmentBuildError, match="3 files"):
        accept_environment(given, file=tmp_path / "env.tar.gz")


@pytest.mark.parametrize("keep", [0, 100])
def test_a_truncated_archive_is_rejected(tmp_path, keep):
    given = write_archive(tmp_path / "given.tar.gz")
    given.write_bytes(given.read_bytes()[:keep])
    with pytest.raises(EnvironmentBuildError, match="cannot be read"):
        accept_environment(given, file=tmp_path / "env.tar.gz")
