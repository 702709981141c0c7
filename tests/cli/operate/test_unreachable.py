"""`status`, `reap`, and `audit` of all environments continue if one of them is unreachable."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.projects import edit
from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.operate.audit import audit as audit_workflow
from tritonstack.operate.audit.audit import Report
from tritonstack.operate.shared import local_cloud

LOCAL = """\
name: local
account: "000000000000"
region: us-east-1
triton_release: "26.05"
removal: destroy
endpoints: {}
"""


def damaged(_: object) -> None:
    raise TritonstackError("address.json: not JSON", code="TS612", remedy=None)


@pytest.fixture(
    params=[
        ("find_spec", lambda _: None, "the extra `local` is not installed"),
        ("read_address", lambda _: None, "in the local cloud, which is not running"),
        ("read_address", damaged, "address.json: not JSON"),
    ],
    ids=["without the extra", "not running", "damaged"],
)
def cause(request, monkeypatch):
    """Make the local environment unreachable; return the reason that commands print."""
    name, replacement, reason = request.param
    monkeypatch.setattr(local_cloud, name, replacement)
    return reason


@pytest.fixture
def here(project, account, monkeypatch):
    """A project with an environment in moto's account, and one in the local cloud."""
    edit(project.environment_file("dev"), "1" * 12, account)
    project.environment_file("local").write_text(LOCAL)
    monkeypatch.setattr(audit_workflow, "find_resources", lambda *_, **__: Report((), ()))
    return project


def data(here: Project, capsys: pytest.CaptureFixture[str], command: str) -> dict[str, Any]:
    run(["--project", str(here.root), "--json", command])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert "error" not in document, document
    return document


def test_status(here, cause, capsys):
    document = data(here, capsys, "status")
    errors = {environment["name"]: environment["error"] for environment in document["environments"]}
    assert set(errors) == {"dev", "local"}
    assert not errors["dev"]
    assert cause in errors["local"]
    (gap,) = document["not_searched"]
    assert gap.startswith("000000000000 us-east-1: ")
    assert cause in gap


def test_reap(here, cause, capsys):
    document = data(here, capsys, "reap")
    (gap,) = document["not_searched"]
    assert cause in gap
    assert document["failed"] == {}


def test_audit(here, cause, account, capsys):
    document = data(here, capsys, "audit")
    reports = {"local" if "000000000000" in place else "dev": report for place, report in document.items()}
    assert cause in json.dumps(reports["local"])
    assert cause not in json.dumps(reports["dev"])
