"""Builds as Processing jobs: requests to SageMaker, job numbers, and logs."""

import json
from dataclasses import replace

from tests.operate.jobs.test_build_jobs import GROUND, ON_L4, account, begin
from tests.operate.strict_aws import BEGAN, StrictLogs, StrictProcessing
from tritonstack.operate.jobs.jobs import LogTail
from tritonstack.operate.jobs.processing import SCRIPT, ProcessingJobs


def test_processing_job_request_is_valid_for_sagemaker():
    sagemaker = StrictProcessing()
    service = ProcessingJobs(account(sagemaker=sagemaker), GROUND)
    name, attached = begin(service, replace(ON_L4, needs_token=True))
    (started,) = sagemaker.started
    assert attached is False
    assert name == f"t-dev-build-{ON_L4.name(GROUND)}-1"
    assert started["ProcessingResources"]["ClusterConfig"]["InstanceType"] == "ml.g6.xlarge"
    assert started["AppSpecification"]["ImageUri"] == GROUND.images["gpu"]
    assert started["StoppingCondition"] == {"MaxRuntimeInSeconds": 5400}
    arguments = started["AppSpecification"]["ContainerArguments"]
    assert "hugging-face" in arguments
    assert max(map(len, [SCRIPT, *arguments])) <= 256
    assert "s3://artifacts/models/m/caches" in arguments
    assert "HF_TOKEN" not in json.dumps(started)


def test_processing_jobs_attach_and_retry_like_builds():
    sagemaker = StrictProcessing()
    service = ProcessingJobs(account(sagemaker=sagemaker), GROUND)
    first, _ = begin(service, ON_L4)
    assert begin(service, ON_L4) == (first, True)
    assert service.start(ON_L4, ON_L4.name(GROUND), 1).id == first
    sagemaker.jobs[first] |= {"ProcessingJobStatus": "Failed", "FailureReason": "no room"}
    assert service.poll(first).reason == "no room"
    assert begin(service, ON_L4) == (first.removesuffix("1") + "2", False)


def test_next_processing_job_number_follows_the_last_job_on_any_page():
    """The first one was deleted, and there are more than one page lists."""
    sagemaker = StrictProcessing()
    base = f"t-dev-build-{ON_L4.name(GROUND)}"
    for number in (5, 2, 3, 4):
        sagemaker.put(f"{base}-{number}", "Failed")
    service = ProcessingJobs(account(sagemaker=sagemaker), GROUND)
    assert begin(service, ON_L4) == (f"{base}-6", False)
    assert begin(service, ON_L4) == (f"{base}-6", True)


def test_a_jobs_log_is_found_by_its_name_and_that_of_a_deleted_job_is_ignored():
    sagemaker, logs = StrictProcessing(), StrictLogs()
    service = ProcessingJobs(account(sagemaker=sagemaker), GROUND)
    name, _ = begin(service, ON_L4)
    logs.streams[f"{name}/algo-1-1"] = ["old"]
    logs.made[f"{name}/algo-1-1"] = int(BEGAN.timestamp() * 1000) - 1
    tail = LogTail(logs)
    assert tail.new_lines(service.poll(name)) == []
    logs.streams[f"{name}/algo-1-2"] = ["a", "b", "c"]
    assert tail.new_lines(service.poll(name)) == ["a", "b", "c"]
    assert tail.new_lines(service.poll(name)) == []
