"""Output and exit codes of `tritonstack verify` and `status`, with a stand-in for the CDK CLI."""

from __future__ import annotations

import boto3
import pytest

from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.files.loading import load_workspace
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.events import read_events


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
