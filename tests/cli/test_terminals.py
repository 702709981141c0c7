"""Commands in real terminals: width, colors, encodings, and pipes."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tools.pictures.terminal import Recording, Screen, record
from tritonstack.base.paths import Project

PROGRAM = f"{sys.prefix}/bin/tritonstack"
_LEFT_OUT = ("AWS_", "COLUMNS", "FORCE_COLOR", "LANG", "LC_", "NO_COLOR", "PYTHONIOENCODING")
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)} | {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
COLOR, ESCAPE = re.compile(r"\x1b\[(\d+;)*3\d"), "\x1b"


def in_terminal(project: Project, command: str, *, columns: int = 80, **variables: str) -> Recording:
    return record(
        f"{PROGRAM} {command}", folder=project.root, variables={**PLAIN, **variables}, columns=columns
    )


def shown(recording: Recording, *, columns: int) -> list[str]:
    screen = Screen(columns)
    screen.write(recording.text)
    return [line.plain for line in screen.lines()]


@pytest.mark.parametrize("command", ["--help", "status"])
def test_colors_and_control_characters_are_for_terminals_that_want_them(command, project):
    colored = in_terminal(project, command)
    plain = in_terminal(project, command, NO_COLOR="1")
    assert COLOR.search(plain.text) is None
    assert COLOR.search(colored.text) is not None
    assert colored.code == plain.code
    assert ESCAPE not in in_terminal(project, command, TERM="dumb").text
    piped = subprocess.run(
        [PROGRAM, *command.split()], cwd=project.root, env=PLAIN, capture_output=True, text=True, check=False
    )
    assert piped.stdout or piped.stderr
    assert ESCAPE not in piped.stdout + piped.stderr


def test_a_table_fits_the_terminal(project):
    lines = shown(in_terminal(project, "status", columns=60), columns=60)
    assert "1 environment, 0 endpoints: 1 unavailable" in lines
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_every_encoding_is_readable(encoding, project):
    ended = subprocess.run(
        [PROGRAM, "✓→…"],
        cwd=project.root,
        env={**PLAIN, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "1"},
        capture_output=True,
        check=False,
    )
    expected = "✓→…" if encoding == "utf-8" else "+->..."
    assert f"No such command '{expected}'." in ended.stderr.decode(encoding)
