"""`tritonstack explain` describes every error code."""

from __future__ import annotations

import json
import re

import pytest

from tritonstack.base.error_kinds import InvalidYamlError, UnknownKeyError
from tritonstack.cli.main import run


@pytest.mark.parametrize("code", ["TS104", "ts104", "[TS104]"])
def test_a_code_is_explained(capsys, code):
    assert run(["explain", code]) == 0
    out = capsys.readouterr().out
    assert out.startswith("TS104: Unknown key\n\n")
    assert " ".join((UnknownKeyError.__doc__ or "").split()) in out
    assert "environments/dev.yaml:9: endpoints.search.instance_typ: unknown" in out


@pytest.mark.parametrize("code", ["TS102", "TS105"])
def test_a_former_code_is_explained_by_its_present_one(capsys, code):
    assert run(["--json", "explain", code]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert explained.pop("message").startswith("error: environments/dev.yaml:")
    assert explained.pop("example")
    assert explained == {
        "code": "TS102",
        "title": InvalidYamlError.title,
        "explanation": " ".join((InvalidYamlError.__doc__ or "").split()),
    }
    assert run(["explain", code]) == 0
    assert re.findall(r"TS\d+", capsys.readouterr().out.splitlines()[0])[-1] == "TS102"


@pytest.mark.parametrize("arguments", [["explain", "TS902"], ["explain"], ["doctor"], ["--version"]])
def test_help_with_the_tool_itself_needs_no_project(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(arguments)
    captured = capsys.readouterr()
    assert "TS902]" not in captured.err
    assert captured.out
