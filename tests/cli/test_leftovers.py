"""What `tritonstack audit` and `destroy` say of what no stack holds."""

from __future__ import annotations

import pytest

from catalog.project import Project
from cli.commands import audit as audit_command
from cli.main import run
from operations.audit.report import Item, Report
from tests.projects import edit

KEY = Item("AWS::KMS::Key", "k", None, pending=True)
SUBSCRIPTION = Item("AWS::SNS::Subscription", "s", None, pending=True)


@pytest.fixture
def dev(project: Project, account: str) -> Project:
    """A project with an environment in moto's account."""
    edit(project.environment_file("dev"), "1" * 12, account)
    return project


@pytest.mark.parametrize(
    ("pending", "words"),
    [
        ((KEY,), "1 key waits for its deletion"),
        ((SUBSCRIPTION, SUBSCRIPTION), "2 subscriptions wait for their deletion"),
        ((KEY, SUBSCRIPTION), "1 key and 1 subscription wait for their deletion"),
    ],
)
def test_what_waits_for_its_deletion_is_counted_by_its_sort_and_is_not_left_over(
    dev: Project,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    pending: tuple[Item, ...],
    words: str,
) -> None:
    monkeypatch.setattr(audit_command, "look", lambda *_, **__: Report(pending, ()))
    assert run(["--project", str(dev.root), "audit", "dev", "--gone"]) == 0
    assert capsys.readouterr().out == f"dev: 0 resources belong to stacks, 0 to none; {words}\n"
