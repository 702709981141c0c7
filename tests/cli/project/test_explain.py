"""`tritonstack explain` describes every error code."""

from __future__ import annotations

import json

import pytest

from tritonstack.cli.main import run
from tritonstack.reference import error_codes
from tritonstack.reference.error_codes import KINDS


@pytest.mark.parametrize("code", ["TS104", "ts104", "[TS104]"])
def test_a_code_is_explained(capsys: pytest.CaptureFixture[str], code: str) -> None:
    assert run(["explain", code]) == 0
    out = capsys.readouterr().out
    assert out.startswith("TS104: Unknown key\n\n")
    assert KINDS["TS104"].explanation in out
    assert (
        "\n\nerror: environments/dev.yaml:9: endpoints.search.instance_typ: unknown key [TS104]\n  help: "
        in out
    )


def test_a_code_is_explained_to_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "explain", "TS105"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("message").startswith("error: environments/dev.yaml:")
    assert found == {
        "code": "TS105",
        "title": KINDS["TS105"].title,
        "explanation": KINDS["TS105"].explanation,
        "example": "An endpoint with `kind: ensemble` twice.",
    }


def test_an_unknown_code_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "TS000"]) == 2
    assert capsys.readouterr().err.startswith("error[TS903]: unknown error code 'TS000'\n  help: ")


def test_a_retired_code_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tritonstack.cli.commands.project.explain.RETIRED", {"TS001": "Former kind"})
    assert run(["explain", "TS001"]) == 2
    assert "TS001 (Former kind) is no longer used" in capsys.readouterr().err
    assert "TS001" not in error_codes.KINDS
