"""Packages that only some builds import come from pyproject.toml, and are unpacked once."""

import tomllib
import zipfile
from pathlib import Path

import pytest

from model_build.environments import wheels
from model_build.environments.wheels import fetched_versions, unpack_packages
from model_build.errors import EnvironmentBuildError
from tritonstack.base.paths import find_project


def test_the_versions_are_those_of_pyproject():
    groups = tomllib.loads((find_project(Path(__file__)).root / "pyproject.toml").read_text())
    pinned = dict(line.split("==") for line in groups["dependency-groups"]["timm"])
    assert fetched_versions() == pinned, "run `make lock`"


def serve_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None = None) -> list[str]:
    """Replace the download by one wheel in a folder; return the calls."""
    wheel = folder / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing/__init__.py", "VALUE = 1")
    if content is not None:
        wheel.write_bytes(content)
    calls: list[str] = []

    def fetch(requirements: tuple[str, ...], **_: object) -> tuple[Path, ...]:
        calls.extend(requirements)
        return (wheel,)

    monkeypatch.setattr(wheels, "fetch_wheels", fetch)
    return calls


def test_packages_are_unpacked_once(tmp_path, monkeypatch):
    calls = serve_wheel(tmp_path, monkeypatch)
    file = tmp_path / "requirements.txt"
    file.write_text("thing==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n")
    folder = unpack_packages(file, cache_dir=tmp_path / "cache")
    assert calls == [f"thing==1.0 --hash=sha256:{'0' * 64}"]
    assert (folder / "thing" / "__init__.py").read_text() == "VALUE = 1"
    (folder / "kept").touch()
    assert unpack_packages(file, cache_dir=tmp_path / "cache") == folder
    assert (folder / "kept").is_file()


def test_a_corrupt_wheel_leaves_no_folder(tmp_path, monkeypatch):
    serve_wheel(tmp_path, monkeypatch, b"no archive")
    file = tmp_path / "requirements.txt"
    file.write_text("thing==1.0\n")
    with pytest.raises(EnvironmentBuildError, match="thing") as caught:
        unpack_packages(file, cache_dir=tmp_path / "cache")
    assert "delete" in (caught.value.remedy or "")
    assert not [path for path in (tmp_path / "cache" / "packages").iterdir() if path.name[0] != "."]


def test_without_a_package_index(tmp_path, monkeypatch):
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(EnvironmentBuildError, match=r"timm==[0-9.]+, torchvision==") as caught:
        unpack_packages(wheels.TIMM, cache_dir=tmp_path)
    assert str(tmp_path) in (caught.value.remedy or "")
    assert "pythons" not in (caught.value.remedy or "")
    assert not list(tmp_path.rglob("*.whl"))
