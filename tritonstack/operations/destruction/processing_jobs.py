"""Find and delete an environment's ended Processing jobs, which SageMaker keeps forever.

No stack owns them, so their environment's deletion leaves them.
"""

from __future__ import annotations

from collections.abc import Callable

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.operations.aws import Cloud, pages

_ENDED = ("Completed", "Failed", "Stopped")
"""The states in which SageMaker deletes a job."""


def jobs_that_are(cloud: Cloud, base: str, *statuses: str) -> set[str]:
    """Return the names of an environment's jobs in some states, without other environments' jobs."""
    stack = naming.build_stack_name(base)
    client, listing = cloud.client("sagemaker"), ("list_processing_jobs", "ProcessingJobSummaries")
    return {
        job["ProcessingJobName"]
        for status in statuses
        for job in pages(client, *listing, NameContains=f"{stack}-", StatusEquals=status)
        if naming.build_stack_of_job(job["ProcessingJobName"]) == stack
    }


def ended_jobs(cloud: Cloud, base: str) -> list[str]:
    """Return the names of ended jobs, sorted."""
    return sorted(jobs_that_are(cloud, base, *_ENDED))


def delete_ended_jobs(cloud: Cloud, base: str, *, on_update: Callable[[str], None]) -> list[str]:
    """Delete jobs; return those that existed."""
    client, deleted = cloud.client("sagemaker"), []
    for name in ended_jobs(cloud, base):
        try:
            client.delete_processing_job(ProcessingJobName=name)
        except ClientError:
            if name in ended_jobs(cloud, base):
                raise
            continue  # deleted by a concurrent run
        on_update(f"{name}: ended Processing job deleted")
        deleted.append(name)
    return deleted
