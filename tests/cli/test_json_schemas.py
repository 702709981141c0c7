"""Every command prints a document of its type of result. docs/reference/results.md lists the keys."""

from __future__ import annotations

import json

import pytest

from tests.json_results import require_valid, validator
from tools.command_results import RESULTS
from tritonstack.cli.main import run
from tritonstack.cli.registry import COMMANDS


def test_every_command_has_a_schema():
    assert sorted(RESULTS) == sorted(COMMANDS)


@pytest.mark.parametrize("name", [*COMMANDS, "error"])
def test_schemas_are_valid_and_closed(name):
    checker = validator(name)
    checker.check_schema(checker.schema)
    assert not checker.is_valid({"unexpected": 1})


@pytest.mark.parametrize(
    "arguments", [["deploy"], ["frobnicate"], ["validate", "nowhere"], ["explain", "TS000"], ["status", "x"]]
)
def test_errors_fit_their_schema(arguments, project, capsys):
    (project.root / "environments" / "broken.yaml").write_text("name: [")
    assert run(["--project", str(project.root), "--json", *arguments]) != 0
    document = json.loads(capsys.readouterr().out)
    require_valid(arguments[0], document)
    assert document["error"]["code"].startswith("TS")
