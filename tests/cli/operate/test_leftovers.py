"""What `tritonstack audit` and `destroy` print about resources without a stack."""

from __future__ import annotations

import json

import pytest

from tests.cli.deploy.test_destroy import TEMPLATE
from tests.operate.strict_aws import StrictProcessing
from tests.projects import edit
from tritonstack.cli.main import run
from tritonstack.operate.audit import audit as audit_workflow
from tritonstack.operate.audit.audit import Item, Report
from tritonstack.operate.shared.aws import Cloud

JOB = "tritonstack-pr-1-build-0123456789abcdef-1"
KEY = Item("AWS::KMS::Key", "k", None, pending=True)
SUBSCRIPTION = Item("AWS::SNS::Subscription", "s", None, pending=True)


@pytest.fixture
def dev(project, account):
    """A project with an environment in moto's account."""
    edit(project.environment_file("dev"), "1" * 12, account)
    return project


@pytest.mark.parametrize(
    ("pending", "words"),
    [
        ((KEY,), "1 key scheduled for deletion"),
        ((SUBSCRIPTION, SUBSCRIPTION), "2 subscriptions scheduled for deletion"),
        ((KEY, SUBSCRIPTION), "1 key and 1 subscription scheduled for deletion"),
    ],
)
def test_resources_pending_deletion_are_counted_by_type(dev, capsys, monkeypatch, pending, words):
    monkeypatch.setattr(audit_workflow, "find_resources", lambda *_, **__: Report(pending, ()))
    assert run(["--project", str(dev.root), "audit", "dev", "--gone"]) == 0
    assert f"stacks, 0 orphaned; {words}" in capsys.readouterr().out


def test_destroy_reports_jobs_that_have_ended_and_deletes_them(dev, account, capsys, monkeypatch):
    dev.template_file("preview").write_text(TEMPLATE.replace("{account}", account))
    jobs, real = StrictProcessing(), Cloud.client
    jobs.put(JOB, "Completed")
    monkeypatch.setattr(Cloud, "client", lambda self, name: jobs if name == "sagemaker" else real(self, name))
    destroy = ["--project", str(dev.root), "destroy", "preview", "--name", "pr-1"]
    assert run([*destroy, "--dry-run"]) == 0
    assert "deleted   1 ended Processing" in capsys.readouterr().out
    assert run([*destroy[:2], "--json", *destroy[2:], "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["ended_jobs"] == [JOB]
    assert run([*destroy, "--yes"]) == 0
    assert "remained, 1 ended Processing" in capsys.readouterr().err
    assert jobs.jobs == {}


EMPTY = Report((), ())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("preview",), 2, "help: add --name <name>; `tritonstack status` lists its instances"),
        (("dev", "--name", "pr-1"), 2, "'dev' is an environment, not a template\n  help: omit --name"),
        (
            ("preview", "--name", "pr-1", "--region", "us-east-1"),
            2,
            "'pr-1' has no stack in any accessible account\n"
            "  help: omit --account, --region, and --prefix to search where 'preview' is deployed",
        ),
        (
            ("preview", "--name", "pr-1"),
            0,
            "pr-1: 0 resources belong to stacks, 0 orphaned; no deployment found",
        ),
        (("preview", "--name", "pr-1", "--gone"), 0, "no deployment found"),
    ],
)
def test_audit_of_an_instance_names_what_is_missing(
    dev, account, capsys, monkeypatch, arguments, code, message
):
    dev.template_file("preview").write_text(TEMPLATE.replace("{account}", account))
    monkeypatch.setattr(audit_workflow, "find_resources", lambda *_, **__: EMPTY)
    assert run(["--project", str(dev.root), "audit", *arguments]) == code
    out, err = capsys.readouterr()
    assert message in (out if code == 0 else err)
    assert "did you mean" not in err
