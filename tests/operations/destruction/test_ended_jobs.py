"""Ended Processing jobs, which SageMaker keeps: whose they are, and their deletion."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.operations.audit.test_audit import SCOPE, SimulatedPages
from tests.operations.strict_aws import StrictProcessing, client_error
from tests.operations.test_operations import TEMPLATE
from tritonstack.operations.audit import report as reports
from tritonstack.operations.audit.listings import LISTINGS
from tritonstack.operations.audit.report import Report, audit
from tritonstack.operations.aws import Cloud
from tritonstack.operations.destruction.destroy import destroy_environment, preview_destruction
from tritonstack.operations.destruction.processing_jobs import delete_ended_jobs

BASE = "tritonstack-dev"
BUILD = f"{BASE}-build"
ENDED = {f"{BUILD}-0123456789abcde{number}-1": status for number, status in enumerate(("Failed", "Stopped"))}
ENDED[f"{BUILD}-0123456789abcdef-12"] = "Completed"
ANOTHERS = f"{BASE}-build-build-0123456789abcdef-1"
"""Of an environment that is called dev-build."""
BY_HAND = f"{BUILD}-evaluation-1"


@pytest.fixture
def jobs(cloud, monkeypatch):
    """A build stack, and SageMaker with its jobs and other ones."""
    cloud.client("cloudformation").create_stack(StackName=BUILD, TemplateBody=TEMPLATE)
    processing = StrictProcessing()
    for name, status in {**ENDED, ANOTHERS: "Completed", BY_HAND: "Completed"}.items():
        processing.put(name, status)
    tagged = [
        {
            "ResourceARN": job["ProcessingJobArn"],
            "Tags": [
                {"Key": "project", "Value": "tritonstack"},
                {"Key": "environment", "Value": "dev-build" if name == ANOTHERS else "dev"},
            ],
        }
        for name, job in processing.jobs.items()
        if name != BY_HAND
    ]
    real, tags = Cloud.client, SimulatedPages({"get_resources": {"ResourceTagMappingList": tagged}})
    played: dict[str, Any] = {"sagemaker": processing, "resourcegroupstaggingapi": tags}
    monkeypatch.setattr(Cloud, "client", lambda self, service: played.get(service) or real(self, service))
    types = {"AWS::CloudFormation::Stack", "AWS::SageMaker::ProcessingJob"}
    monkeypatch.setattr(reports, "LISTINGS", [listing for listing in LISTINGS if types & set(listing.types)])
    return processing


def of_jobs(report: Report) -> dict[str, str | None]:
    return {
        item.id.rpartition("/")[2]: item.stack
        for item in report.items
        if item.type == "AWS::SageMaker::ProcessingJob"
    }


def test_only_ended_jobs_are_deleted_and_before_any_stack(cloud, jobs):
    lines: list[str] = []
    destroyed = destroy_environment(cloud, BASE, on_update=lines.append)
    assert destroyed.jobs == tuple(sorted(ENDED))
    assert jobs.jobs.keys() == {ANOTHERS, BY_HAND}
    last = max(lines.index(f"{name}: ended Processing job deleted") for name in ENDED)
    assert last < lines.index(f"{BUILD}: DELETE_COMPLETE")


def test_preview_lists_ended_jobs_and_keeps_them(cloud, jobs):
    jobs.put(f"{BUILD}-0123456789abcdef-13", "InProgress")
    foreseen = preview_destruction(cloud, BASE)
    assert foreseen.jobs == tuple(sorted(ENDED))
    assert ENDED.keys() <= jobs.jobs.keys()


def test_concurrent_destroys_do_not_conflict(cloud, jobs, monkeypatch):
    first, *others = sorted(ENDED)
    real = jobs.delete_processing_job

    def delete(**parameters: Any) -> None:
        if parameters["ProcessingJobName"] == first:
            real(**parameters)
        real(**parameters)

    monkeypatch.setattr(jobs, "delete_processing_job", delete)
    assert delete_ended_jobs(cloud, BASE, on_update=lambda _: None) == others


def test_denied_job_deletion_keeps_the_stacks(cloud, jobs, monkeypatch):
    def reject(**_: Any) -> None:
        raise client_error("DeleteProcessingJob", "AccessDeniedException", "not yours")

    monkeypatch.setattr(jobs, "delete_processing_job", reject)
    with pytest.raises(ClientError, match="not yours"):
        destroy_environment(cloud, BASE, on_update=lambda _: None)
    stacks = cloud.client("cloudformation").describe_stacks()["Stacks"]
    assert [stack["StackName"] for stack in stacks] == [BUILD]


def test_ended_jobs_belong_to_an_existing_build_stack(cloud, jobs):
    del jobs.jobs[BY_HAND]
    report = audit(cloud, SCOPE)
    assert of_jobs(report) == dict.fromkeys(ENDED, BUILD)
    assert report.orphans == []


def test_nothing_is_left_after_destruction_despite_stale_tag_listings(cloud, jobs):
    del jobs.jobs[BY_HAND]
    destroy_environment(cloud, BASE, on_update=lambda _: None)
    report = audit(cloud, SCOPE)
    assert (report.items, report.not_listed) == ((), ())
