"""Folders stay small, and the tests of a large package have the folders of that package."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_MODULES = 15
"""Modules per folder, without `__init__.py`."""
ROOTS = (
    "benchmarks",
    "model_build",
    "packages/local_cloud/tests",
    "packages/local_cloud/tritonstack_local",
    "packages/sizing/tests",
    "packages/sizing/tritonstack_sizing",
    "stacks",
    "tests",
    "tools",
    "tritonstack",
)
MIRRORED = {
    "tests/cli": "tritonstack/cli/commands",
    "tests/constructs": "tritonstack/constructs",
    "tests/model_build": "model_build",
    "tests/operate": "tritonstack/operate",
    "tests/files": "tritonstack/files",
    "packages/sizing/tests": "packages/sizing/tritonstack_sizing",
}
"""Folder of tests -> the package that they test."""
COMPLETE_BUILDS = "tests/model_build/builds"
"""Tests of all parts of model_build together."""


def crowded(root: Path) -> dict[str, int]:
    """Return the folders below a root that hold too many modules."""
    counts: dict[str, int] = {}
    for file in root.rglob("*.py"):
        if file.name != "__init__.py":
            folder = file.parent.relative_to(root).as_posix()
            counts[folder] = counts.get(folder, 0) + 1
    return {folder: count for folder, count in counts.items() if count > MOST_MODULES}


def packages(root: Path) -> set[str]:
    """Return the packages directly below a folder."""
    return {file.parent.name for file in root.glob("*/__init__.py")}


@pytest.mark.parametrize("root", ROOTS)
def test_folders_contain_about_a_dozen_modules(root):
    assert any((ROOT / root).rglob("*.py"))
    assert crowded(ROOT / root) == {}


@pytest.mark.parametrize(("tests", "package"), MIRRORED.items())
def test_the_folders_of_tests_are_those_of_the_package(tests, package):
    found = {f"{tests}/{name}" for name in packages(ROOT / tests)} - {COMPLETE_BUILDS}
    assert found
    assert found <= {f"{tests}/{name}" for name in packages(ROOT / package)}


def test_tests_are_in_packages():
    """pytest gives two test files of one name different modules only if their folders are packages."""
    folders = {
        file.parent
        for root in ("tests", "packages/local_cloud/tests", "packages/sizing/tests")
        for file in (ROOT / root).rglob("test_*.py")
    }
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
