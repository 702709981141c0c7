"""Check the files for contributors: links, the versions of the hooks, and the packages to develop with."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    ROOT / ".github" / "pull_request_template.md",
]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]


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


def hooks() -> list[Any]:
    return [pytest.param(repo, hook, id=hook["id"]) for repo in HOOKS for hook in repo["hooks"]]


@pytest.mark.parametrize(("repo", "hook"), hooks())
def test_a_hook_installs_the_versions_of_the_project(repo: dict[str, Any], hook: dict[str, Any]) -> None:
    assert repo["repo"] == "local", "a hook repository's tag can move; name a package with its version"
    versions = pinned()
    for pin in hook["additional_dependencies"]:
        name, _, version = pin.partition("==")
        assert version, pin
        assert version == versions.get(name, version), f"{pin}: pyproject.toml pins {versions.get(name)}"


def test_the_lock_has_every_pinned_version() -> None:
    """A dependency that changed only in pyproject.toml is not installed: run `make lock`."""
    text = (ROOT / "requirements-dev.txt").read_text()
    locked = {normalized(name): version for name, version in re.findall(r"^([\w.-]+)==([^ ;]+)", text, re.M)}
    assert {name: locked.get(name) for name in pinned()} == pinned()
