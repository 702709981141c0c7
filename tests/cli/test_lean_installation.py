"""The commands for AWS work with the packages of requirements.txt only, as CI installs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.lean_installation import ABSENT, ROOT
from tritonstack.base.paths import Project


def lean(project: Project, *arguments: str) -> tuple[int, str]:
    launcher = Path(__file__).with_name("lean_installation.py")
    done = subprocess.run(
        [sys.executable, str(launcher), "--project", str(project.root), *arguments],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_lean_installation_omits_only_heavy_packages():
    assert {"moto", "torch", "isal", "cryptography", "tritonclient"} <= ABSENT
    assert not {"boto3", "docker", "aws_cdk", "tritonstack"} & ABSENT


def test_the_commands_for_aws_start(project):
    code, output = lean(project, "report", "--offline", "--output", str(project.root / "r.html"))
    assert code == 0, output


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (("up", "--detach"), "module 'moto'"),
        (("bench", "dev", "search"), "tritonstack-sizing"),
        (("tune", "--help"), "tritonstack-sizing"),
        (("simulate",), "tritonstack-sizing"),
    ],
)
def test_commands_that_need_an_extra_name_it(project, command, missing):
    code, output = lean(project, *command)
    assert code == 2
    assert missing in output
    assert "make setup" in output
