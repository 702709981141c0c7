"""Images of the project's own in an environment's repositories: what is not there yet, CodeBuild builds."""

from __future__ import annotations

import hashlib
import json

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import image_project_name
from tritonstack.operations.aws import Cloud, error_code
from tritonstack.operations.builds.codebuild import CodeBuildJobs
from tritonstack.operations.builds.infrastructure import BuildGround
from tritonstack.operations.builds.jobs import JobState

_OCI = "application/vnd.oci."
_ABSENT = ("ImageNotFoundException", "RepositoryNotFoundException")


class UnusableImageError(TritonstackError):
    """SageMaker would refuse an image."""


def missing_images(cloud: Cloud, ground: BuildGround) -> list[str]:
    """Those that the repositories lack."""
    wanted = (*ground.images.values(), *ground.endpoint_images)
    return [uri for uri in wanted if image_digest(cloud, uri) is None]


def image_job(cloud: Cloud, ground: BuildGround) -> tuple[CodeBuildJobs, JobState, bool]:
    """The build of the missing images that runs, or a new one; and whether it ran before."""
    service = CodeBuildJobs(cloud, ground, image_project_name(ground.base))
    facts = json.dumps([ground.source, *sorted(ground.images.values()), *sorted(ground.endpoint_images)])
    job = hashlib.sha256(facts.encode()).hexdigest()[:16]
    attempts = service.attempts(job)
    running = next((attempt for attempt in attempts if attempt.status == "running"), None)
    if running is not None:
        return service, running, True
    return service, service.start_with(job, service.next_number(attempts), {"JOB": job}), False


def is_image_there(cloud: Cloud, uri: str) -> bool:
    """Whether a registry holds an image that is named by its digest."""
    repository, _, digest = uri.partition("/")[2].partition("@")
    images = [{"imageDigest": digest}]
    try:
        cloud.client("ecr").describe_images(repositoryName=repository, imageIds=images)
    except ClientError as error:
        if error_code(error) in _ABSENT:
            return False
        raise
    return True


def image_digest(cloud: Cloud, uri: str) -> str | None:
    """The digest of an image, None if it is not there; raises where SageMaker could not run it."""
    repository, _, tag = uri.partition("/")[2].rpartition(":")
    try:
        found = cloud.client("ecr").describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])
    except ClientError as error:
        if error_code(error) in _ABSENT:
            return None
        raise
    details = found["imageDetails"][0]
    if str(details.get("imageManifestMediaType", "")).startswith(_OCI):
        raise UnusableImageError(
            f"{uri} has a manifest of the type {details['imageManifestMediaType']}, and SageMaker takes "
            "Docker's alone",
            remedy="delete it (`aws ecr batch-delete-image`), switch the containerd image store off in the "
            "Docker engine that pushed it, or let the account build it (`builds` in the environment file); "
            "then build again",
        )
    return str(details["imageDigest"])
