"""Check the files for contributors: links, the versions of the hooks, and the packages to develop with."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    ROOT / ".github" / "pull_request_template.md",
]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def normalized(name: str) -> str:
    """Return the name of a distribution as indexes compare it, without extras."""
    return re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()


def pinned() -> dict[str, str]:
    """Return the exact version of each dependency of pyproject.toml, without the project's own packages."""
    project = PYPROJECT["project"]
    pins = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    versions = {normalized(name): version for name, _, version in (pin.partition("==") for pin in pins)}
    return {name: version for name, version in versions.items() if not name.startswith("tritonstack")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.name)
def test_every_link_and_path_exists(document: Path) -> None:
    text = document.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    missing = [link for link in links if not (document.parent / link).exists()]
    # A path in backticks is relative to the repository; one that starts with / is on another machine.
    paths = [path for path in re.findall(r"`([\w.-]+/[\w./-]*)`", text) if "//" not in path]
    missing += [path for path in paths if not (ROOT / path).exists()]
    assert missing == []


def test_the_lock_has_every_pinned_version() -> None:
    """A dependency that changed only in pyproject.toml is not installed: run `make lock`."""
    text = (ROOT / "requirements-dev.txt").read_text()
    locked = {normalized(name): version for name, version in re.findall(r"^([\w.-]+)==([^ ;]+)", text, re.M)}
    assert {name: locked.get(name) for name in pinned()} == pinned()
