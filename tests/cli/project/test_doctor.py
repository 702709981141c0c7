"""`tritonstack doctor PATH`: output, exit codes, and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model_build.linting.given_repositories import CUT, ONNX, SINGLE, TRIO, packed, write
from tritonstack.cli.main import run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which is in no project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_errors_come_first_with_place_code_and_remedy(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ONNX.replace('name: "scores"', 'name: "score"').replace("count: 2 ", "")
    wrong = wrong.replace("KIND_CPU", "KIND_GPU")
    write(folder / "given", {**SINGLE, "scores/config.pbtxt": wrong})
    assert run(["doctor", "given"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "error: given/scores/config.pbtxt:1: name: expected name 'scores', got 'score' [TS316]",
        "  help: rename the folder, or remove `name`",
        "warning: given/scores/config.pbtxt:6: instance_group: KIND_GPU: the load fails on instance types "
        "without a GPU [TS209]",
        "  help: pass --instance-type to check it, or use KIND_AUTO",
        "given: 1 error, 1 warning; models: scores; endpoints load scores",
    ]


def test_a_sound_archive(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed(write(folder / "given", TRIO), folder / "model.tar.gz")
    assert run(["doctor", "model.tar.gz", "--instance-type", "ml.m7i.large", "--release", "26.03"]) == 0
    assert capsys.readouterr().out == (
        "model.tar.gz: 0 errors, 0 warnings; models: cut, scores, whole; endpoints load whole; single-model "
        "endpoints need SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=whole\n"
    )


def test_warnings_alone_exit_with_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "given", {**SINGLE, "scores/.DS_Store": ""})
    assert run(["doctor", "given"]) == 0
    assert "0 errors, 1 warning;" in capsys.readouterr().out


def test_json_lists_every_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "given", {**SINGLE, **CUT})
    assert run(["--json", "doctor", "given"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "path": "given",
        "release": "26.05",
        "models": ["cut", "scores"],
        "entry": None,
        "variables": {},
        "findings": [
            {
                "severity": "error",
                "code": "TS209",
                "file": "given",
                "line": None,
                "field": "",
                "message": "got 2 model folders without an ensemble: cut, scores",
                "remedy": "pack each model into an archive of its own; or name the model of a single-model "
                "endpoint in SAGEMAKER_TRITON_DEFAULT_MODEL_NAME and pass it as --default-model",
            }
        ],
    }
    assert run(["--json", "doctor", "given", "--default-model", "cut"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["entry"]) == (True, "cut")
    assert found["variables"] == {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "cut"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.tar.gz"], "error[TS903]: nothing.tar.gz: file not found"),
        ([".", "--release", "26.5"], "error[TS901]: unknown Triton release '26.5'"),
        ([".", "--instance-type", "ml.m7i.big"], "error[TS901]: unknown instance type 'ml.m7i.big'"),
        (["--release", "26.05"], "error[TS901]: --release needs a path"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", *arguments]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "help: " in printed
