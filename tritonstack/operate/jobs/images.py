"""Build missing custom images in CodeBuild for an environment's repositories."""

from __future__ import annotations

import hashlib
import json

from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import image_project_name
from tritonstack.operate.jobs.codebuild import CodeBuildJobs
from tritonstack.operate.jobs.jobs import BuildInfra, JobState, attach_or
from tritonstack.operate.shared.artifacts import find_image
from tritonstack.operate.shared.aws import Cloud

_OCI = "application/vnd.oci."


class UnusableImageError(TritonstackError):
    """Docker could not build or push the image of an endpoint, the image is gone, or it has an OCI manifest,
    which SageMaker does not accept. Correct the Dockerfile, check that the base image can be pulled, and
    disable the containerd image store of Docker.
    """

    code = "TS325"
    title = "Custom image cannot be used"


def missing_images(cloud: Cloud, infra: BuildInfra) -> list[str]:
    """Return the images that the repositories lack."""
    images = (*infra.images.values(), *infra.endpoint_images)
    return [uri for uri in images if image_digest(cloud, uri) is None]


def image_job(cloud: Cloud, infra: BuildInfra) -> tuple[CodeBuildJobs, JobState, bool]:
    """Return the running build of the missing images, or start one; and whether it was already running."""
    service = CodeBuildJobs(cloud, infra, image_project_name(infra.base))
    facts = json.dumps([infra.source, *sorted(infra.images.values()), *sorted(infra.endpoint_images)])
    job = hashlib.sha256(facts.encode()).hexdigest()[:16]
    state, attached = attach_or(lambda number: service.start_with(job, number, {"JOB": job}), service, job)
    return service, state, attached


def is_image_there(cloud: Cloud, uri: str) -> bool:
    """Return whether a registry holds an image with its digest."""
    repository, _, digest = uri.partition("/")[2].partition("@")
    return find_image(cloud.client("ecr"), {"imageDigest": digest}, repositoryName=repository) is not None


def image_digest(cloud: Cloud, uri: str) -> str | None:
    """Return an image's digest; None if missing. Raise an error if SageMaker cannot run it."""
    repository, _, tag = uri.partition("/")[2].rpartition(":")
    details = find_image(cloud.client("ecr"), {"imageTag": tag}, repositoryName=repository)
    if details is None:
        return None
    if str(details.get("imageManifestMediaType", "")).startswith(_OCI):
        raise UnusableImageError(
            (
                f"{uri} has a manifest of type {details['imageManifestMediaType']}; SageMaker accepts "
                "Docker manifests only"
            ),
            remedy=(
                "delete it (`aws ecr batch-delete-image`), disable the containerd image store in the "
                "Docker engine that pushed it, or let the account build it (`builds` in the environment "
                "file); then build again"
            ),
        )
    return str(details["imageDigest"])
