"""Output and exit codes of `tritonstack verify` and `status`, with a stand-in for the CDK CLI."""

from __future__ import annotations

import boto3
import pytest

from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.cli.rendering.verdict_text import verdict_lines
from tritonstack.operations.aws import Cloud
from tritonstack.operations.events import read_events
from tritonstack.operations.revisions import Revision
from tritonstack.operations.verification.checks import Check
from tritonstack.operations.verification.verdicts import EndpointVerdict, Verdict
from tritonstack.project.loading import load_workspace


def said(
    capsys: pytest.CaptureFixture[str], project: Project, *arguments: str
) -> tuple[int, pytest.CaptureResult[str]]:
    code = run(["--project", str(project.root), *arguments])
    return code, capsys.readouterr()


def test_verdict_is_recorded_unless_disabled(built, capsys, account):
    bucket = load_workspace(built, "dev").spec.artifact_bucket
    boto3.client("s3", region_name="eu-west-1").create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    cloud = Cloud(account, "eu-west-1", {})
    said(capsys, built, "verify", "dev", "--no-record")
    assert read_events(cloud, bucket) == []
    said(capsys, built, "verify", "dev")
    (event,) = read_events(cloud, bucket)
    assert (event.kind, event.note.split()[0]) == ("refuted", "search:")


@pytest.mark.parametrize(
    ("endpoint", "help_text"), [("serch", "did you mean 'search'?"), ("other", "it has: search")]
)
def test_unknown_endpoint_is_exit_2(built, capsys, endpoint, help_text):
    code, words = said(capsys, built, "verify", "dev", "--endpoint", endpoint)
    assert code == 2
    assert help_text in words.err


def test_verdict_as_text():
    good = EndpointVerdict(
        "search",
        "t-dev-search",
        (
            Check("stack", detail="UPDATE_COMPLETE", compared=2, notes=("rolled back",)),
            Check("scaling", ("not registered",), detail="main 1 to 2", skipped=1),
        ),
        not_compared={"AWS::SNS::Topic": 2, "AWS::IAM::Role": 1},
    )
    revision = Revision("c" * 40, ("environments/dev.yaml", "stacks/new.py"))
    verdict = Verdict("dev", revision, (good,), stacks=(Check("t-dev-foundation", detail="x"),))
    lines = list(verdict_lines(verdict))
    assert (lines[1], lines[3]) == ("  ✓ t-dev-foundation  x", "search: t-dev-search")
    assert (lines[5].strip(), lines[7].strip()) == ("(note: rolled back)", "not registered")
    assert lines[6].startswith("  ✗ scaling ")
    assert "1 IAM::Role, 2 SNS::Topic" in lines[8]
    assert "environments/dev.yaml, stacks/new.py" in lines[10]
    assert lines[11].endswith("cccccccc+uncommitted")
