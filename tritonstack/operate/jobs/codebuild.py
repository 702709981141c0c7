"""Run build jobs in CodeBuild. An attempt is a build; a variable holds the job's name."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError, aws_error_code, aws_error_message
from tritonstack.base.naming import image_project_name
from tritonstack.operate.jobs.jobs import (
    BuildInfra,
    BuildJobError,
    JobOrder,
    JobState,
    JobStatus,
    NoRoomError,
    attach_or,
    once_role_is_known,
)
from tritonstack.operate.shared.artifacts import find_image
from tritonstack.operate.shared.aws import Clock, Cloud

_LIMIT = "AccountLimitExceededException"
"""The error code for exceeding a project's limit or the account's quota; CodeBuild does not queue such
builds."""
_QUOTA_OF_NONE = re.compile(r"more than 0 ")
_STATUS: dict[str, JobStatus] = {
    "IN_PROGRESS": "running",
    "SUCCEEDED": "succeeded",
    "STOPPED": "stopped",
    "FAILED": "failed",
    "FAULT": "failed",
    "TIMED_OUT": "failed",
}
_PHASES = {
    "SUBMITTED": "submitted",
    "QUEUED": "waiting for a machine",
    "PROVISIONING": "starting the machine",
    "DOWNLOAD_SOURCE": "fetching the source",
    "FINALIZING": "ending",
    "COMPLETED": "ended",
}


class CodeBuildJobs:
    """The builds of one project."""

    def __init__(self, cloud: Cloud, infra: BuildInfra, project: str, *, clock: Clock | None = None) -> None:
        self._client = cloud.client("codebuild")
        self._clock = clock or Clock()
        self._ground = infra
        self._project = project

    def attempts(self, job: str) -> list[JobState]:
        """Return the job's attempts among the project's latest 100 builds."""
        return [
            build_state(build)
            for build in latest_builds(self._client, self._project)
            if build_variable(build, "JOB") == job
        ]

    def next_number(self, attempts: Sequence[JobState]) -> int:
        """Return the next attempt number, which is part of the idempotency token; CodeBuild forgets tokens
        within minutes."""
        return len(attempts) + 1

    def start(self, order: JobOrder, job: str, attempt: int) -> JobState:
        """Start an attempt; concurrent calls for one attempt get the same build, because their token is
        equal."""
        variables_text = _plain(
            {
                "MODEL": order.model,
                "TARGETS": " ".join(order.targets),
                "CHOICES": json.dumps(dict(order.choices)),
                "JOB": job,
            }
        )
        if order.needs_token and self._ground.token_secret:
            # CodeBuild reads the secret when the build starts; builds without a download get no token.
            variables_text.append(
                {"name": "HF_TOKEN", "value": self._ground.token_secret, "type": "SECRETS_MANAGER"}
            )
        return self._start(job, attempt, variables_text, role=order.role)

    def start_with(self, job: str, attempt: int, variables: Mapping[str, str]) -> JobState:
        """Start a build with these variables."""
        return self._start(job, attempt, _plain(variables))

    def _start(
        self, job: str, attempt: int, variables: list[dict[str, str]], *, role: str | None = None
    ) -> JobState:
        request = {
            "projectName": self._project,
            # The project may have been redeployed from another commit meanwhile; use the requested source.
            "sourceTypeOverride": "S3",
            "sourceLocationOverride": self._ground.source,
            "environmentVariablesOverride": variables,
            "idempotencyToken": f"{job}-{attempt}",
            **({"serviceRoleOverride": role} if role else {}),
        }
        return build_state(self._begun(request))

    def _begun(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Start the build; raise NoRoomError at a limit.

        The account's quota includes builds of other projects, so this project may have none running.
        """
        try:
            started = once_role_is_known(lambda: self._client.start_build(**request), self._clock)
        except ClientError as error:
            code, message = aws_error_code(error), aws_error_message(error)
            if code != _LIMIT:
                raise BuildJobError(
                    f"CodeBuild cannot start a build of {self._project}: {code}: {message}",
                    remedy="if access is denied, use credentials that may start builds; if the project is "
                    "missing, run `tritonstack build` again, which deploys the build stack",
                ) from error
            if _QUOTA_OF_NONE.search(message):
                raise BuildJobError(
                    f"CodeBuild cannot start a build of {self._project}: {message}",
                    remedy="run `tritonstack quotas` to see the quota; AWS raises it on request",
                ) from error
            raise NoRoomError(
                f"CodeBuild cannot start another build of {self._project} now: {message}",
                remedy="rerun when a build has ended; run `tritonstack quotas` to see the account's quota",
            ) from error
        build: Mapping[str, Any] = started["build"]
        return build

    def poll(self, attempt_id: str) -> JobState:
        """Return a build's status."""
        (build,) = self._client.batch_get_builds(ids=[attempt_id])["builds"]
        return build_state(build)

    def stop(self, attempt_id: str) -> None:
        """Stop a build."""
        self._client.stop_build(id=attempt_id)


def _plain(variables: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()]


def latest_builds(client: Any, project: str) -> list[Mapping[str, Any]]:
    """Return a project's latest 100 builds, latest first."""
    ids = client.list_builds_for_project(projectName=project, sortOrder="DESCENDING")["ids"]
    builds = client.batch_get_builds(ids=ids[:100])["builds"] if ids else []
    by_id = {build["id"]: build for build in builds}
    return [by_id[build_id] for build_id in ids if build_id in by_id]


def build_variable(build: Mapping[str, Any], name: str) -> str | None:
    """Return an environment variable of a build; None if it is not set."""
    variables = build.get("environment", {}).get("environmentVariables", [])
    return next((item["value"] for item in variables if item["name"] == name), None)


def build_state(build: Mapping[str, Any]) -> JobState:
    """Return the state of a build."""
    status, logs = build["buildStatus"], build.get("logs", {})
    phase = str(build.get("currentPhase", "SUBMITTED"))
    return JobState(
        id=build["id"],
        status=_STATUS[status],
        phase=_PHASES.get(phase, "building"),
        reason=_reason(build) if _STATUS[status] == "failed" else "",
        log_group=logs.get("groupName", ""),
        log_stream=logs.get("streamName", ""),
    )


def _reason(build: Mapping[str, Any]) -> str:
    causes = {"TIMED_OUT": "it took too long", "FAULT": "CodeBuild failed"}
    messages = [
        f"{phase['phaseType']}: {context['message']}"
        for phase in build.get("phases", [])
        if phase.get("phaseStatus") not in (None, "SUCCEEDED")
        for context in phase.get("contexts", [])
        if context.get("message")
    ]
    return "; ".join([*filter(None, [causes.get(build["buildStatus"])]), *messages]) or "it failed"


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
