"""`tritonstack import`: output, exit codes, and JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model_build.linting.given_repositories import CUT, ONNX, SINGLE, write
from tests.projects import write_project
from tritonstack.cli.main import run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory: a project, beside which repositories are written."""
    (tmp_path / "project").mkdir()
    write_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def test_warnings_changes_and_the_next_commands(folder, capsys):
    write(folder / "given", {**SINGLE, "scores/config.pbtxt": ONNX.replace("KIND_CPU", "KIND_GPU")})
    assert run(["import", "../given", "--name", "ranker"]) == 0
    warning, _, changed, imported, following = capsys.readouterr().out.splitlines()
    assert warning.startswith("warning: ../given/scores/config.pbtxt:6: instance_group: ")
    assert warning.endswith(" [TS209]")
    assert "scores to ranker" in changed
    assert imported.endswith(" models/ranker: 3 files")
    assert following.endswith(" --environment dev --model ranker")
    assert run(["validate"]) == 0


def test_errors_stop_the_import(folder, capsys):
    write(folder / "given", SINGLE)
    (folder / "given/scores/config.pbtxt").write_text(ONNX.replace('"scores"', '"score"'))
    assert run(["import", "../given"]) == 2
    assert "got 'score'" in capsys.readouterr().err
    write(folder / "two", {**SINGLE, **CUT})
    assert run(["import", "../two"]) == 2
    assert "error[TS340]: ../two" in capsys.readouterr().err
    assert [entry.name for entry in Path("models").iterdir()] == ["minilm"]
