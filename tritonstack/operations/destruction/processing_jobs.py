"""An environment's Processing jobs: SageMaker keeps those that have ended until somebody deletes them.

No stack holds them, so nothing else takes them along, nor their tags, when their environment goes.
"""

from __future__ import annotations

from collections.abc import Callable

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.operations.aws import Cloud

_ENDED = ("Completed", "Failed", "Stopped")
"""SageMaker deletes no job in any other state."""


def jobs_that_are(cloud: Cloud, base: str, *statuses: str) -> set[str]:
    """The names of an environment's jobs of some states; such a name may begin with another environment's."""
    stack = naming.build_stack_name(base)
    listed = cloud.client("sagemaker").get_paginator("list_processing_jobs")
    return {
        job["ProcessingJobName"]
        for status in statuses
        for page in listed.paginate(NameContains=f"{stack}-", StatusEquals=status)
        for job in page["ProcessingJobSummaries"]
        if naming.build_stack_of_job(job["ProcessingJobName"]) == stack
    }


def ended_jobs(cloud: Cloud, base: str) -> list[str]:
    """The names of those that have ended, in their order."""
    return sorted(jobs_that_are(cloud, base, *_ENDED))


def delete_ended_jobs(cloud: Cloud, base: str, *, tell: Callable[[str], None]) -> list[str]:
    """Delete them; gives those that were there."""
    client, deleted = cloud.client("sagemaker"), []
    for name in ended_jobs(cloud, base):
        try:
            client.delete_processing_job(ProcessingJobName=name)
        except ClientError:
            if name in ended_jobs(cloud, base):
                raise
            continue  # another run was faster
        tell(f"{name}: ended Processing job deleted")
        deleted.append(name)
    return deleted
