"""`tritonstack doctor PATH`: output, exit codes, and JSON."""

from __future__ import annotations

import json

import pytest

from tests.model_build.linting.given_repositories import CUT, ONNX, SINGLE, write
from tritonstack.cli.main import run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory, which is in no project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_errors_come_first_with_place_code_and_remedy(folder, capsys):
    wrong = ONNX.replace('name: "scores"', 'name: "score"').replace("count: 2 ", "")
    wrong = wrong.replace("KIND_CPU", "KIND_GPU")
    write(folder / "given", {**SINGLE, "scores/config.pbtxt": wrong})
    assert run(["doctor", "given"]) == 1
    first, help_of_first, second, help_of_second, summary = capsys.readouterr().out.splitlines()
    assert first.startswith("error: given/scores/config.pbtxt:1: name: ")
    assert first.endswith(" [TS316]")
    assert second.startswith("warning: given/scores/config.pbtxt:6: instance_group: ")
    assert second.endswith(" [TS209]")
    assert {line[:8] for line in (help_of_first, help_of_second)} == {"  help: "}
    assert summary.startswith("given: 1 error, 1 warning; ")


def test_json_lists_every_finding(folder, capsys):
    write(folder / "given", {**SINGLE, **CUT})
    assert run(["--json", "doctor", "given"]) == 1
    document = json.loads(capsys.readouterr().out)
    (finding,) = document.pop("findings")
    assert document == {
        "ok": False,
        "path": "given",
        "release": "26.05",
        "models": ["cut", "scores"],
        "entry": None,
        "variables": {},
    }
    assert (finding["severity"], finding["code"], finding["file"]) == ("error", "TS209", "given")
    assert run(["--json", "doctor", "given", "--default-model", "cut"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["entry"]) == (True, "cut")
    assert document["variables"] == {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "cut"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.tar.gz"], "error[TS903]: nothing.tar.gz: file not found"),
        ([".", "--release", "26.5"], "error[TS901]: unknown Triton release '26.5'"),
        ([".", "--instance-type", "ml.m7i.big"], "error[TS901]: unknown instance type 'ml.m7i.big'"),
        (["--release", "26.05"], "error[TS901]: --release needs a path"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    assert run(["doctor", *arguments]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "help: " in printed
