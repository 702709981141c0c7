"""Valid environments load; any damage is reported with field, file, and line."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.environments import NAME, Data, environments, many, write_environment
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.yaml import Branch, FieldPath, branches_at, field_text, value_at
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import load_workspace


def records(data: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Branch]]:
    """Return every record in an environment, with the type that the file chose for it."""
    if isinstance(data, dict):
        for branch in branches_at(EnvironmentSpec, path, _ENTIRE[0]):
            yield path, branch
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for part, value in parts:
        yield from records(value, (*path, part))


_ENTIRE: list[Data] = [{}]
"""The environment that `records` walks through: what stands at a place depends on the keys beside it."""


def fields(data: Data) -> list[tuple[FieldPath, Any]]:
    """Return every field in an environment, with the record's field."""
    _ENTIRE[0] = data
    return [
        ((*path, name), branch.record.model_fields[name])
        for path, branch in records(data)
        for name in value_at(data, path)
    ]


def damaged(data: Data, path: FieldPath, value: Any) -> Data:
    result = copy.deepcopy(data)
    value_at(result, path[:-1])[path[-1]] = value
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One project, whose environment every example rewrites."""
    return tmp_path_factory.mktemp("project")


def violations(folder: Path, data: Data) -> tuple[tuple[FileViolation, ...], list[str]]:
    """Return the violations of an environment, and the lines of its file."""
    project = write_environment(folder, data)
    with pytest.raises(InvalidFilesError) as caught:
        load_workspace(project, NAME)
    file = project.environment_file(NAME)
    assert {violation.file for violation in caught.value.violations} == {file}
    return caught.value.violations, file.read_text().splitlines()


def assert_named(folder: Path, data: Data, path: FieldPath) -> None:
    """Assert that a violation names the field and its line."""
    found, lines = violations(folder, data)
    named = [violation for violation in found if violation.field == field_text(path)]
    assert named, f"{field_text(path)} is not among {[violation.field for violation in found]}"
    for violation in named:
        assert violation.line is not None
        line = lines[violation.line - 1].strip()
        keys = [str(part) for part in path if isinstance(part, str)]
        assert line.startswith((f"{keys[-1]}:", f"- {keys[-1]}:")) or isinstance(path[-1], int), line


def some(draw: Any, data: Data, accept: Any) -> FieldPath | None:
    """Return a field that can be damaged in a certain way, if any."""
    paths = [path for path, field in fields(data) if accept(path, value_at(data, path), field)]
    return draw(st.sampled_from(paths)) if paths else None


@many(30)
@given(environments())
def test_random_valid_environments_load(folder, data):
    workspace = load_workspace(write_environment(folder, data), NAME)
    assert set(workspace.spec.endpoints) == set(data["endpoints"])


@many(30)
@given(environments(), st.data())
def test_missing_required_key_is_reported(folder, data, draws):
    path = some(draws.draw, data, lambda path, value, field: field.is_required())
    result = copy.deepcopy(data)
    del value_at(result, path[:-1])[path[-1]]
    found, lines = violations(folder, result)
    (violation,) = [violation for violation in found if violation.field == field_text(path)]
    assert violation.code == "TS106"
    # The key is nowhere, so the line is that of what should hold it.
    line = lines[(violation.line or 0) - 1].strip()
    if len(path) == 1:
        assert violation.line == 1
    else:
        assert line.startswith("- " if isinstance(path[-2], int) else f"{path[-2]}:")


@many(30)
@given(environments(), st.data())
def test_a_misspelled_key_is_named_and_the_right_one_suggested(folder, data, draws):
    path = some(draws.draw, data, lambda path, value, field: len(str(path[-1])) > 3)
    result = copy.deepcopy(data)
    record = value_at(result, path[:-1])
    misspelt = f"{path[-1][:2]}{path[-1][3:]}z"
    record[misspelt] = record.pop(path[-1])
    assert_named(folder, result, (*path[:-1], misspelt))
    found, _ = violations(folder, result)
    (violation,) = [violation for violation in found if violation.field == field_text((*path[:-1], misspelt))]
    assert (violation.code, violation.remedy) == ("TS104", f"did you mean '{path[-1]}'?")


@many(30)
@given(environments(), st.data())
def test_a_value_of_the_wrong_type_is_named(folder, data, draws):
    path = some(draws.draw, data, lambda path, value, field: True)
    wrong = 17 if isinstance(value_at(data, path), dict | list) else {"a": "b"}
    assert_named(folder, damaged(data, path, wrong), path)
