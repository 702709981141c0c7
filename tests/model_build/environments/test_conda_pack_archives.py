"""conda-pack archives are used unchanged if they are valid."""

import io
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    archive = write_archive(tmp_path / "given.tar.gz")
    (tmp_path / "part").mkdir()
    report = accept_environment(archive, file=tmp_path / "part/env.tar.gz")
    assert sha256_of(tmp_path / "part/env.tar.gz") == sha256_of(archive) == report.sha256
    assert report.path == "part/env.tar.gz"
    assert report.packages == ("python==3.10.14", "scikit-learn==1.4.2")
    assert report.pythons == ("py310",)
    assert target_python(report, None) == "py310"
    assert report.unpacked_bytes == sum(map(len, FILES.values()))


OLDER = {name.replace("3.10", "3.9"): content for name, content in FILES.items()}
DEVICE = {"links": {"dev/zero": ""}, "kind": tarfile.CHRTYPE}
REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "no activate": ({"without": "bin/activate"}, "missing: bin/activate"),
    "no unpack": ({"without": "bin/conda-unpack"}, "missing: bin/conda-unpack"),
    "a Python of no image": ({"files": OLDER, "links": {"bin/python": "python3.9"}}, "Python 3.9"),
    "absolute link": ({"links": {"bin/python": "/usr/bin/python3"}}, "to /usr/bin/python3, outside"),
    "symbolic link": ({"links": {"bin/python": "../../outside"}}, "to ../../outside, outside"),
    "hard link": ({"links": {"bin/python": "../outside"}, "kind": tarfile.LNKTYPE}, "to ../outside, outside"),
    "path above": ({"files": {**FILES, "../evil": b""}}, "'../evil' is outside"),
    "absolute path": ({"files": {**FILES, "/etc/evil": b""}}, "'/etc/evil' is outside"),
    "path below and above": ({"files": {**FILES, "lib/../../evil": b""}}, "'lib/../../evil' is outside"),
    "device": (DEVICE, "dev/zero is not a file"),
    "too many files": ({"limit": 3}, "3 files"),
    "empty": ({"keep": 0}, "cannot be read"),
    "truncated": ({"keep": 100}, "cannot be read"),
}


@pytest.mark.parametrize(("change", "message"), REJECTED.values(), ids=REJECTED)
def test_unsafe_and_unsuitable_archives_are_rejected(tmp_path, monkeypatch, change, message):
    options = dict(change)
    keep, limit = options.pop("keep", None), options.pop("limit", 100)
    monkeypatch.setattr("model_build.environments.given.LIMIT_MEMBERS", limit)
    archive = write_archive(tmp_path / "given.tar.gz", **options)
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(EnvironmentBuildError, match=re.escape(message)):
        accept_environment(archive, file=tmp_path / "env.tar.gz")
    assert not (tmp_path / "env.tar.gz").exists()
