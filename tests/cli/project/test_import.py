"""`tritonstack import`: output, exit codes, and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model_build.linting.given_repositories import CUT, ONNX, SINGLE, write
from tests.projects import write_project
from tritonstack.cli.main import run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a project, beside which repositories are written."""
    (tmp_path / "project").mkdir()
    write_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def test_warnings_changes_and_the_next_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "given", {**SINGLE, "scores/config.pbtxt": ONNX.replace("KIND_CPU", "KIND_GPU")})
    assert run(["import", "../given", "--name", "ranker"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "warning: ../given/scores/config.pbtxt:6: instance_group: KIND_GPU: the load fails on instance types "
        "without a GPU [TS209]",
        "  help: pass --instance-type to check it, or use KIND_AUTO",
        "changed: renamed the model scores to ranker; callers do not see its name",
        "imported a Triton repository as models/ranker: 3 files",
        "next: tritonstack new endpoint ranker --environment dev --model ranker",
    ]
    assert run(["validate"]) == 0


def test_an_endpoint_in_aws(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "given", SINGLE)
    assert run(["import", "../given/scores", "--environment", "dev"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: tritonstack build dev"
    assert "model: scores" in Path("environments/dev.yaml").read_text()


def test_an_endpoint_in_an_environment_with_a_promotion_source(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "given", SINGLE)
    text = Path("environments/dev.yaml").read_text().replace("name: dev", "name: prod")
    Path("environments/prod.yaml").write_text(f"promotion: {{source: dev}}\n{text}")
    assert run(["import", "../given/scores", "--environment", "prod"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: tritonstack promote dev prod"


def test_errors_stop_the_import(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "given", SINGLE)
    (folder / "given/scores/config.pbtxt").write_text(ONNX.replace("[ 4 ]", "[ 5 ]"))
    assert run(["import", "../given"]) == 2
    assert "'x' has dims [5] here, and [4] in the graph, without the batch [TS316]" in capsys.readouterr().err
    write(folder / "two", {**SINGLE, **CUT})
    assert run(["import", "../two"]) == 2
    assert "error[TS340]: ../two has several models that serve by themselves" in capsys.readouterr().err
    assert [entry.name for entry in Path("models").iterdir()] == ["minilm"]


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "given", CUT)
    assert run(["--json", "import", "../given"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["name"], result["kind"], result["environment"]) == ("cut", "Triton repository", None)
    assert [Path(file).name for file in result["files"]] == ["model.yaml", "model.py", "config.pbtxt"]
