"""The list of commands is complete, short, and fast to print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tritonstack.cli import commands
from tritonstack.cli.main import run
from tritonstack.cli.registry import COMMANDS, WINGS, load_command

HEAVY = ("boto3", "botocore", "numpy", "pydantic", "yaml", "docker", "aws_cdk")


def test_every_command_is_listed_once():
    modules = [file.stem.removesuffix("_") for file in Path(commands.__file__).parent.rglob("[a-z]*.py")]
    assert sorted(COMMANDS) == sorted([*modules, *WINGS])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capsys):
    assert load_command(name).name == name
    assert run([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Usage: tritonstack {name} " in out
    assert re.search(rf"Examples?:\n    tritonstack {name}\b|Commands:", out)


def test_help_needs_no_project(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["deploy", "--help"]) == 0
    assert "Usage: tritonstack deploy" in capsys.readouterr().out
    assert run(["deploy", "dev"]) == 2


def test_a_misspelled_command_is_corrected(capsys):
    assert run(["valdate"]) == 2
    assert "you mean 'validate'?" in capsys.readouterr().err


def test_list_loads_no_heavy_module():
    code = "import sys; from tritonstack.cli.main import run; run(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Operate:" in done.stdout
    loaded = set(done.stdout.split())
    assert loaded & set(HEAVY) == set()
    assert {name for name in loaded if name.startswith("tritonstack.cli.commands")} == set()
