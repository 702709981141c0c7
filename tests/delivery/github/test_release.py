"""The release workflow: the tag, the wheels, and the release have one version and one content."""

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.containers.test_hashes import LOCKS
from tests.delivery.github.workflows import ROOT, WORKFLOWS, read_workflow

CHANGELOG = """\
# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-01

### Added

- A thing.

## [0.1.0] - 2026-11-22

- The rest.
"""
Release = Callable[..., subprocess.CompletedProcess[str]]


def wheel(folder: Path, name: str, version: str, *, file_version: str | None = None) -> Path:
    file = folder / f"{name.replace('-', '_')}-{file_version or version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{name.replace('-', '_')}-{version}.dist-info/METADATA", metadata)
    return file


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two distributions and their built wheels."""
    for folder, name in ((".", "tritonstack"), ("packages/local_cloud", "tritonstack-local")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    dist = tmp_path / "dist"
    dist.mkdir()
    wheel(dist, "tritonstack", "0.2.0")
    wheel(dist, "tritonstack-local", "0.2.0")
    return tmp_path


@pytest.fixture
def check(repository: Path) -> Release:
    def run(tag: str = "v0.2.0", *arguments: str) -> subprocess.CompletedProcess[str]:
        tool = str(ROOT / "tools" / "check_release.py")
        command = [sys.executable, tool, tag, "--wheels", "dist", *arguments]
        return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)

    return run


def test_one_version_everywhere_passes(repository, check):
    ended = check("v0.2.0", "--notes", "notes.md", "--as-outputs")
    assert (ended.returncode, ended.stderr) == (0, "")
    name, _, text = ended.stdout.strip().partition("=")
    assert name == "hashes"
    assert json.loads(text) == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (repository / "dist").iterdir()
    }
    assert (repository / "notes.md").read_text() == "### Added\n\n- A thing.\n"


def test_another_tag_fails_for_each_file(repository, check):
    ended = check("v0.3.0", "--notes", "notes.md")
    assert ended.returncode == 1
    for line in (
        "pyproject.toml:3: version: 0.2.0, but the tag is v0.3.0",
        "packages/local_cloud/pyproject.toml:3: version: 0.2.0, but the tag is v0.3.0",
        "tritonstack-0.2.0-py3-none-any.whl: Version: 0.2.0, but the tag is v0.3.0",
        "CHANGELOG.md: no section `## [0.3.0] - <date>` with text",
    ):
        assert f"error: {line}" in ended.stderr
    assert not (repository / "notes.md").exists()


@pytest.mark.parametrize("tag", ["0.2.0", "v0.2", "v0.2.0-rc1", "v0.2.0.dev1", "v", "main"])
def test_tag_that_is_not_a_version_fails(check, tag):
    ended = check(tag)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: invalid tag {tag!r}: ")


def run_without_a_tag(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check_release.py")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_this_commit_has_a_version_of_its_own():
    ended = run_without_a_tag(ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")


def set_version(repository: Path, version: str) -> None:
    for file in (repository / "pyproject.toml", repository / "packages/local_cloud/pyproject.toml"):
        file.write_text(re.sub('version = ".*"', f'version = "{version}"', file.read_text()))


NEWER = CHANGELOG.replace("## [Unreleased]\n", "## [Unreleased]\n\n- Newer.\n")


@pytest.mark.parametrize(
    ("version", "changelog", "accepted"),
    [
        ("0.2.0", CHANGELOG, True),  # the release commit: nothing is newer
        ("0.2.0", NEWER, False),
        ("0.3.0.dev0", NEWER, True),
        ("0.3.0.dev0", CHANGELOG, True),
        ("0.2.0.dev1", NEWER, False),  # older than the release
        ("0.1.0", NEWER, False),
        ("0.3.0", NEWER, False),  # neither released nor in development
        ("0.3.0rc1", NEWER, False),
        ("0.2.0", CHANGELOG.replace("[0.1.0]", "[0.2.0]"), False),  # two entries
    ],
)
def test_a_released_version_names_one_state_of_the_code(repository, version, changelog, accepted):
    set_version(repository, version)
    (repository / "CHANGELOG.md").write_text(changelog)
    ended = run_without_a_tag(repository)
    assert (ended.returncode, "CHANGELOG.md" in ended.stderr or "version:" in ended.stderr) == (
        (0, False) if accepted else (1, True)
    )


@pytest.mark.parametrize("tag", [(), ("v0.2.0",)], ids=["development", "release"])
def test_a_pin_of_another_version_of_this_repository_fails(repository, check, tag):
    file = repository / "packages/local_cloud/pyproject.toml"
    file.write_text(file.read_text() + 'dependencies = [\n    "tritonstack==0.1.0",\n    "boto3==1.0",\n]\n')
    ended = check(*tag) if tag else run_without_a_tag(repository)
    assert ended.returncode == 1
    assert "packages/local_cloud/pyproject.toml:5: tritonstack: 0.1.0, " in ended.stderr
    assert "boto3" not in ended.stderr


def test_publishing_needs_an_approval_and_installs_no_package_but_uv():
    """The job that can get a PyPI token runs only what it needs."""
    jobs = read_workflow(WORKFLOWS / "release.yml")["jobs"]
    environments = {name: job.get("environment") for name, job in jobs.items()}
    assert environments == {"tests": None, "wheels": None, "publish": "pypi"}
    assert jobs["wheels"]["needs"] == "tests"
    assert jobs["publish"]["permissions"] == {"contents": "read", "id-token": "write"}
    assert jobs["publish"]["needs"] == "wheels"
    commands = [step["run"] for step in jobs["publish"]["steps"] if "run" in step]
    assert [command.split()[0] for command in commands] == ["gh", "python", "uv"]
    assert '--hashes "$HASHES"' in commands[1]
    targets = [
        step["with"]["target"]
        for job in jobs.values()
        for step in job["steps"]
        if "target" in step.get("with", {})
    ]
    assert targets == ["setup-release", "setup-release"]


def test_only_commits_of_the_protected_branch_are_released():
    content = read_workflow(WORKFLOWS / "release.yml")
    assert content["on"] == {"push": {"tags": ["v*"]}}
    commands = [step["run"] for step in content["jobs"]["wheels"]["steps"] if "run" in step]
    assert commands[0].split() == ["git", "merge-base", "--is-ancestor", '"$GITHUB_SHA"', "origin/main"]


def test_every_lock_is_audited():
    """requirements-dev.txt contains requirements.txt and requirements-local.txt."""
    content = read_workflow(WORKFLOWS / "audit.yml")
    assert {"pull_request", "schedule"} <= content["on"].keys()
    locks = {str(file) for file in LOCKS} - {"requirements.txt", "requirements-local.txt"}
    files = content["jobs"]["python"]["strategy"]["matrix"]["file"]
    assert set(files) == locks
    commands = [step["run"] for job in content["jobs"].values() for step in job["steps"] if "run" in step]
    assert {command.split()[0] for command in commands} == {"pip", "pip-audit", "npm"}


def test_the_wheels_are_attested_before_they_are_released() -> None:
    steps = read_workflow(WORKFLOWS / "release.yml")["jobs"]["wheels"]["steps"]
    (attest,) = [step for step in steps if step.get("uses", "").startswith("actions/attest@")]
    released = [step.get("run", "").startswith("gh release create") for step in steps]
    assert attest["with"] == {"subject-path": "dist/*.whl"}
    assert steps.index(attest) == released.index(True) - 1
