"""Processing jobs that have ended: SageMaker keeps them, with all their tags, until somebody deletes them.

No stack holds them, so nothing else takes them along when their environment goes.
"""

from __future__ import annotations

from collections.abc import Callable

from botocore.exceptions import ClientError

from catalog import naming
from operations.aws import Cloud

_ENDED = ("Completed", "Failed", "Stopped")
"""SageMaker deletes no job in any other state."""


def ended_jobs(cloud: Cloud, base: str) -> list[str]:
    """The names of an environment's, in the order of their names."""
    stack = naming.build_stack_name(base)
    listed = cloud.client("sagemaker").get_paginator("list_processing_jobs")
    return sorted(
        job["ProcessingJobName"]
        for page in listed.paginate(NameContains=f"{stack}-")
        for job in page["ProcessingJobSummaries"]
        if job["ProcessingJobStatus"] in _ENDED
        and naming.build_stack_of_job(job["ProcessingJobName"]) == stack
    )


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
