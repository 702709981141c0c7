"""Every command has a JSON Schema of its result, generated from types."""

from __future__ import annotations

import json

import pytest

from tests.json_results import require_valid, validator
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.cli.registry import COMMANDS
from tritonstack.project.schemas import FOLDER
from tritonstack.workflows.json_results.schemas import RESULTS, result_schema_files


def test_every_command_has_a_schema() -> None:
    assert sorted(RESULTS) == sorted(COMMANDS)


def test_schemas_on_disk_are_those_of_the_types() -> None:
    written = dict(result_schema_files())
    assert sorted(written) == sorted((FOLDER / "results").iterdir())
    for file, text in written.items():
        assert file.read_text() == text, f"{file.name} is out of date: run `make schemas`"


@pytest.mark.parametrize("name", [*COMMANDS, "error"])
def test_schemas_are_valid_and_closed(name: str) -> None:
    checker = validator(name)
    checker.check_schema(checker.schema)
    assert not checker.is_valid({"unexpected": 1})


@pytest.mark.parametrize(
    "arguments", [["deploy"], ["frobnicate"], ["validate", "nowhere"], ["explain", "TS000"], ["status", "x"]]
)
def test_errors_fit_their_schema(
    arguments: list[str], project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "environments" / "broken.yaml").write_text("name: [")
    assert run(["--project", str(project.root), "--json", *arguments]) != 0
    document = json.loads(capsys.readouterr().out)
    require_valid(arguments[0], document)
    assert document["error"]["code"].startswith("TS")


@pytest.mark.parametrize("arguments", [["explain"], ["explain", "TS901"], ["validate"], ["quotas", "dev"]])
def test_a_printed_document_fits_its_schema(
    arguments: list[str], project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--project", str(project.root), "--json", *arguments]) == 0
    require_valid(arguments[0], json.loads(capsys.readouterr().out))
