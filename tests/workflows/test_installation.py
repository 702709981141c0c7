"""The parts that `doctor` reports, the `cdk` command that `setup` writes, and an environment without pip."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.operations.deploying.test_cdk_program import npm_package, script
from tritonstack.base import extras
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.operations.deploying.cdk import pinned_cdk_version
from tritonstack.workflows.installation import doctor, setup


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python environment that is first on PATH."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", f"{tmp_path}/venv/bin:/usr/bin:/bin")
    monkeypatch.delenv("TRITONSTACK_HOME", raising=False)
    (tmp_path / "venv/bin").mkdir(parents=True)
    return tmp_path / "venv"


def set_up(root: Path, answer: str) -> Project:
    """Install a CDK CLI that prints `answer` in a project."""
    project = Project(root)
    script(project.cdk_dir / setup.CDK_PROGRAM, f"echo {answer} $*")
    setup.write_cdk_command(project, on_step=pytest.fail)
    return project


def printed(command: Path, folder: Path) -> str:
    ended = subprocess.run([command, "diff"], cwd=folder, capture_output=True, text=True, check=False)
    return ended.stdout.strip() or f"exit code {ended.returncode}"


def test_the_cdk_command_runs_the_cli_of_the_current_project(prefix: Path, tmp_path: Path) -> None:
    for name in ("first one", "second"):
        set_up(tmp_path / name, name)
    command = prefix / "bin/cdk"
    (tmp_path / "first one/models/deep").mkdir(parents=True)
    assert printed(command, tmp_path / "first one") == "first one diff"
    assert printed(command, tmp_path / "first one/models/deep") == "first one diff"
    assert printed(command, tmp_path / "second") == "second diff"
    assert printed(command, tmp_path) == "second diff"


def test_the_cdk_command_follows_the_state_folder(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(tmp_path / "other", "other")
    monkeypatch.setenv("TRITONSTACK_HOME", str(tmp_path / "state"))
    script(tmp_path / "state/cdk" / setup.CDK_PROGRAM, "echo state $*")
    assert printed(prefix / "bin/cdk", tmp_path) == "state diff"


def test_a_link_of_an_earlier_release_is_replaced(prefix: Path, tmp_path: Path) -> None:
    old = script(tmp_path / "gone/.tritonstack/cdk" / setup.CDK_PROGRAM, "echo old")
    (prefix / "bin/cdk").symlink_to(old)
    set_up(tmp_path / "shop", "shop")
    assert printed(prefix / "bin/cdk", tmp_path / "shop") == "shop diff"
    assert old.read_text() == "#!/bin/sh\necho old\n"


def link_npm(command: Path) -> None:
    command.symlink_to(npm_package(command.parents[1] / "lib", "3.0.0"))


@pytest.mark.parametrize("put", [link_npm, lambda command: script(command, "exit 9")], ids=["link", "file"])
def test_a_cdk_command_of_somebody_else_is_kept(
    prefix: Path, tmp_path: Path, put: Callable[[Path], None]
) -> None:
    command = prefix / "bin/cdk"
    put(command)
    set_up(tmp_path / "shop", "shop")
    assert printed(command, tmp_path / "shop") == "exit code 9"


def states(project: Project) -> dict[str, str]:
    return {check.name: check.state for check in doctor.check_project(project).checks}


@pytest.mark.parametrize(
    ("module", "name", "state"),
    [
        ("aws_cdk", "extra cdk", "missing"),
        ("isal", "extra build", "optional"),
        ("tritonstack_local", "extra local", "optional"),
    ],
)
def test_doctor_tells_optional_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str, state: str
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda asked: None if asked == module else object())
    found = states(Project(tmp_path))
    extra = {one: text for one, text in found.items() if one.startswith("extra")}
    assert extra == dict.fromkeys(extra, "ok") | {name: state}
    assert found["Triton server"] == "optional"


def test_doctor_names_the_version_of_the_cdk_cli_and_the_expected_one(prefix: Path, tmp_path: Path) -> None:
    program = script(prefix / "bin/cdk", "echo 3.0.0")
    (check,) = [one for one in doctor.check_project(Project(tmp_path)).checks if one.name == "CDK CLI"]
    assert check.detail == f"version 3.0.0 ({program}); expected version {pinned_cdk_version()}"
    assert (check.state, check.remedy) == ("missing", "run `tritonstack setup`")


@pytest.mark.parametrize("uv", [True, False])
def test_setup_without_pip_names_the_command_that_installs_it(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, uv: bool
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    monkeypatch.setattr(extras.shutil, "which", lambda _: "/bin/uv" if uv else None)
    with pytest.raises(UsageError, match="pip is not installed") as caught:
        setup.install_node()
    expected = "uv pip install pip" if uv else f"{sys.executable} -m ensurepip"
    assert f"`{expected}`" in str(caught.value.remedy)
    assert os.listdir(prefix) == ["bin"]
