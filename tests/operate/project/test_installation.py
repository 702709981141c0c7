"""`setup` and its result, the `cdk` command that it writes, and the parts that `doctor` reports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.operate.synth.test_cdk_program import npm_package, script
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.operate.project import setup
from tritonstack.operate.project import setup as doctor
from tritonstack.operate.shared.session import NullReporter, Session
from tritonstack.triton.install import SITE_PACKAGES
from tritonstack.triton.installation import RECORD_NAME


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python environment that is first on PATH."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", f"{tmp_path}/venv/bin:/usr/bin:/bin")
    monkeypatch.delenv("TRITONSTACK_HOME", raising=False)
    (tmp_path / "venv/bin").mkdir(parents=True)
    return tmp_path / "venv"


class FailingReporter(NullReporter):
    """Accepts no notes."""

    def note(self, text: str) -> None:
        pytest.fail(text)


def set_up(root: Path, answer: str) -> Project:
    """Install a CDK CLI that prints `answer` in a project."""
    project = Project(root)
    script(project.cdk_dir / setup.CDK_PROGRAM, f"echo {answer} $*")
    setup.write_cdk_command(project, FailingReporter())
    return project


def printed(command: Path, folder: Path) -> str:
    ended = subprocess.run([command, "diff"], cwd=folder, capture_output=True, text=True, check=False)
    return ended.stdout.strip() or f"exit code {ended.returncode}"


def test_the_cdk_command_runs_the_cli_of_the_current_project(prefix: Path, tmp_path: Path) -> None:
    for name in ("my first", "second"):
        set_up(tmp_path / name, name)
    command, deep = prefix / "bin/cdk", tmp_path / "my first/models"
    deep.mkdir(parents=True)
    assert printed(command, deep.parent) == printed(command, deep) == "my first diff"
    assert printed(command, tmp_path / "second") == printed(command, tmp_path) == "second diff"


def test_the_cdk_command_follows_the_state_folder(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(tmp_path / "other", "other")
    monkeypatch.setenv("TRITONSTACK_HOME", str(tmp_path / "state"))
    script(tmp_path / "state/cdk" / setup.CDK_PROGRAM, "echo state $*")
    assert printed(prefix / "bin/cdk", tmp_path) == "state diff"


def link_npm(command: Path) -> None:
    command.symlink_to(npm_package(command.parents[1] / "lib", "3.0.0"))


@pytest.mark.parametrize("put", [link_npm, lambda command: script(command, "exit 9")], ids=["link", "file"])
def test_foreign_cdk_command_is_kept(prefix: Path, tmp_path: Path, put: Callable[[Path], None]) -> None:
    command = prefix / "bin/cdk"
    put(command)
    set_up(tmp_path / "shop", "shop")
    assert printed(command, tmp_path / "shop") == "exit code 9"


def states(project: Project) -> dict[str, str]:
    return {check.name: check.state for check in doctor.doctor(Session(project)).checks}


@pytest.mark.parametrize(
    ("module", "name", "state"),
    [
        ("aws_cdk", "extra cdk", "missing"),
        ("isal", "extra build", "optional"),
        ("tritonstack_local", "extra local", "optional"),
        ("tritonstack_sizing", "extra sizing", "optional"),
    ],
)
def test_doctor_reports_optional_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str, state: str
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda spec: None if spec == module else object())
    checks = states(Project(tmp_path))
    extras_ = {check: text for check, text in checks.items() if check.startswith("extra")}
    assert extras_ == dict.fromkeys(extras_, "ok") | {name: state}
    assert checks["Triton server"] == "optional"


@pytest.fixture
def tools(project: Project, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Replace the installers; return which tools are current."""
    current = {"node": False, "cdk": False, "server": False}

    def install(tool: str) -> None:
        current[tool] = True

    def install_server(*, home: Path, on_update: Callable[[str], None]) -> SimpleNamespace:
        on_update("installing the backends")
        current["server"] = True
        return SimpleNamespace(version="2.51.0", release="24.10")

    monkeypatch.setattr(setup, "node_major", lambda: 22 if current["node"] else None)
    monkeypatch.setattr(setup, "cdk_is_current", lambda _: current["cdk"])
    monkeypatch.setattr(setup, "server_is_current", lambda *, home: current["server"])
    monkeypatch.setattr(setup, "install_node", lambda: install("node"))
    monkeypatch.setattr(setup, "install_cdk", lambda _: install("cdk"))
    monkeypatch.setattr(setup, "install_server", install_server)
    return current


def test_the_json_of_setup_is_one_document(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Progress of the server's installation is no part of the result."""

    def build(home: Path, inputs: str, libraries: object, on_update: Callable[[str], None]) -> None:
        on_update("creating a Python environment")
        record = {"inputs": inputs, "version": "2.51.0", "release": "24.10", "outside": [], "missing": {}}
        (home / "backends").mkdir()
        (home / "lib").mkdir()
        (home / RECORD_NAME).write_text(json.dumps({**record, "site_packages": SITE_PACKAGES}))

    monkeypatch.setattr(setup, "node_major", lambda: 22)
    monkeypatch.setattr(setup, "cdk_is_current", lambda _: True)
    monkeypatch.setattr(setup, "write_cdk_command", lambda *_: None)
    monkeypatch.setattr("tritonstack.triton.install._build", build)
    monkeypatch.setenv("TRITONSTACK_HOME", str(tmp_path / "home"))
    for installed in (["server"], []):
        assert run(["--project", str(project.root), "--json", "setup"]) == 0
        assert json.loads(capsys.readouterr().out) == {"installed": installed, "server": True}
