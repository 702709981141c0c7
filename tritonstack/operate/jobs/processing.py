"""Run build jobs in SageMaker Processing, for GPUs that CodeBuild does not offer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack.base.naming import (
    PROCESSING_LOG_GROUP,
    build_cache_prefix,
    build_stack_name,
    processing_job_name,
)
from tritonstack.files.project.build_machines import ProcessingMachine
from tritonstack.operate.jobs.jobs import (
    BuildInfra,
    BuildJobError,
    BuildStackError,
    JobOrder,
    JobState,
    JobStatus,
    once_role_is_known,
)
from tritonstack.operate.shared.aws import Clock, Cloud, pages

SOURCE_PATH = "/opt/ml/processing/input/source"
SCRIPT = (
    f"set -e; cd /home/builder; B=/opt/builder/bin/python; $B -m zipfile -e {SOURCE_PATH}/*.zip source; "
    'cd source; export HOME=/home/builder; exec runuser -u builder -- $B -m model_build --project . "$@"'
)
"""Unpacks the source as root and builds as an unprivileged user."""
_VOLUME_GB = 200
_STATUS: dict[str, JobStatus] = {
    "InProgress": "running",
    "Stopping": "running",
    "Completed": "succeeded",
    "Stopped": "stopped",
    "Failed": "failed",
}


class ProcessingJobs:
    """The build jobs of one environment."""

    def __init__(self, cloud: Cloud, infra: BuildInfra, *, clock: Clock | None = None) -> None:
        self._client = cloud.client("sagemaker")
        self._clock = clock or Clock()
        self._ground = infra
        self._region = cloud.region

    def attempts(self, job: str) -> list[JobState]:
        """Return the job's attempts, by name."""
        parameters = {"NameContains": f"-build-{job}-", "SortBy": "CreationTime", "SortOrder": "Descending"}
        return [
            self.poll(item["ProcessingJobName"])
            for item in pages(self._client, "list_processing_jobs", "ProcessingJobSummaries", **parameters)
            if item["ProcessingJobName"].startswith(f"{build_stack_name(self._ground.base)}-{job}-")
        ]

    def next_number(self, attempts: Sequence[JobState]) -> int:
        """Return the next number after the highest: deletions leave gaps, and names must be unique."""
        return max((int(attempt.id.rpartition("-")[2]) for attempt in attempts), default=0) + 1

    def start(self, order: JobOrder, job: str, attempt: int) -> JobState:
        """Start an attempt; if its name exists, attach to that job."""
        name = processing_job_name(self._ground.base, job, attempt)
        request = self._request(order, job)
        try:
            once_role_is_known(
                lambda: self._client.create_processing_job(ProcessingJobName=name, **request), self._clock
            )
        except ClientError as error:
            if aws_error_code(error) not in ("ResourceInUse", "ResourceInUseException"):
                raise _explained(error, order) from error
        return self.poll(name)

    def poll(self, attempt_id: str) -> JobState:
        """Return a job's status."""
        return processing_state(self._client.describe_processing_job(ProcessingJobName=attempt_id))

    def stop(self, attempt_id: str) -> None:
        """Stop a job."""
        self._client.stop_processing_job(ProcessingJobName=attempt_id)

    def _request(self, order: JobOrder, job: str) -> dict[str, Any]:
        infra = self._ground
        role = order.role or infra.processing_role
        if role is None or not isinstance(order.build_machine, ProcessingMachine):
            raise BuildStackError(
                f"the build stack of {infra.base} has no role for Processing jobs",
                remedy="deploy it again: the environment's file has changed since",
            )
        arguments = ["--model", order.model, "--targets", " ".join(order.targets)]
        arguments += ["--publish", infra.bucket]
        arguments += ["--cache", f"s3://{infra.bucket}/{build_cache_prefix(order.model)}"]
        arguments += ["--choices", json.dumps(dict(order.choices)), "--job", job, "--json-progress"]
        if order.needs_token and infra.token_secret:
            arguments += ["--token-secret", infra.token_secret]
        return {
            "RoleArn": role,
            "AppSpecification": {
                "ImageUri": infra.image(order.build_machine.hardware),
                "ContainerEntrypoint": ["/bin/sh", "-c", SCRIPT, "build"],
                "ContainerArguments": arguments,
            },
            "ProcessingInputs": [
                {
                    "InputName": "source",
                    "S3Input": {
                        "S3Uri": f"s3://{infra.source}",
                        "LocalPath": SOURCE_PATH,
                        "S3DataType": "S3Prefix",
                        "S3InputMode": "File",
                    },
                }
            ],
            "ProcessingResources": {
                "ClusterConfig": {
                    "InstanceCount": 1,
                    "InstanceType": order.build_machine.instance_type,
                    "VolumeSizeInGB": _VOLUME_GB,
                }
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 60 * infra.timeout_minutes},
            "Environment": {"AWS_DEFAULT_REGION": self._region},
            "Tags": _tags(infra.tags or {}),
        }


def processing_state(job: Mapping[str, Any]) -> JobState:
    """Return the state of a Processing job."""
    status = _STATUS[job["ProcessingJobStatus"]]
    return JobState(
        id=job["ProcessingJobName"],
        status=status,
        phase="building" if "ProcessingStartTime" in job else "starting the machine",
        reason=job.get("FailureReason", "it failed") if status == "failed" else "",
        log_group=PROCESSING_LOG_GROUP,
        log_stream=f"{job['ProcessingJobName']}/",
        began_ms=int(job["CreationTime"].timestamp() * 1000),
    )


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _explained(error: ClientError, order: JobOrder) -> BuildJobError:
    code, message = aws_error_code(error), aws_error_message(error)
    remedy = "run `tritonstack quotas` to see the quota; AWS raises it on request"
    return BuildJobError(
        f"SageMaker cannot start a Processing job for {order.model!r}: {code}: {message}",
        remedy=remedy if code == "ResourceLimitExceeded" else None,
    )
