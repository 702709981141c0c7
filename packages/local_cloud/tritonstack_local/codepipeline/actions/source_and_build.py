"""S3 source and CodeBuild actions: they produce artifacts."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack.base.files import parse_json
from tritonstack_local.codebuild.records import PipelineOrder
from tritonstack_local.codepipeline.actions.work import POLL_S, ActionOutcome, Work
from tritonstack_local.codepipeline.errors import ActionFailedError
from tritonstack_local.service.errors import ServiceError


def fetch(work: Work) -> ActionOutcome:
    """Copy the object, and record its version."""
    bucket, key, s3 = work.setting("S3Bucket"), work.setting("S3ObjectKey"), work.client("s3")
    if s3.get_bucket_versioning(Bucket=bucket).get("Status") != "Enabled":
        raise ActionFailedError("ConfigurationError", f"The S3 bucket {bucket} must have versioning enabled")
    asked = {"VersionId": work.revision} if work.revision else {}
    try:
        found = s3.head_object(Bucket=bucket, Key=key, **asked)
    except ClientError as error:
        code = aws_error_code(error)
        raise ActionFailedError(
            "ConfigurationError", f"The object with key '{key}' in bucket '{bucket}' cannot be read: {code}"
        ) from error
    version = found["VersionId"]
    for output in work.outputs.values():
        source = {"Bucket": bucket, "Key": key, "VersionId": version}
        work.store.copy_object(Bucket=work.bucket, Key=output, CopySource=source)
    details = {"BucketName": bucket, "ETag": found["ETag"].strip('"'), "ObjectKey": key, "VersionId": version}
    return ActionOutcome(work.outputs, version, details, f"Amazon S3 version id: {version}")


def build(work: Work) -> ActionOutcome:
    """Start the build unless it was started, and wait for its end."""
    build_id = work.look().external_id or _started(work)
    while True:
        found = work.client("codebuild").batch_get_builds(ids=[build_id])["builds"]
        if not found:
            raise ActionFailedError("JobFailed", f"The build {build_id} is gone")
        if found[0]["buildComplete"]:
            return _outcome(work, found[0])
        work.pause(POLL_S)


def _started(work: Work) -> str:
    inputs = {name: f"{work.bucket}/{key}" for name, key in work.inputs.items()}
    source = work.settings.get("PrimarySource") or next(iter(inputs), "")
    if source not in inputs:
        raise ActionFailedError(
            "ConfigurationError", f"The primary source {source!r} is not an input artifact"
        )
    order = PipelineOrder(
        pipeline=work.pipeline,
        project=work.setting("ProjectName"),
        source=source,
        inputs=inputs,
        outputs={name: f"{work.bucket}/{key}" for name, key in work.outputs.items()},
        variables=parse_json(work.settings.get("EnvironmentVariables", "[]")),
    )
    try:
        build_id = work.start_build(work.scope, order)
    except ServiceError as error:
        raise ActionFailedError("JobFailed", f"Error calling startBuild: {error.message}") from error
    work.note(external_id=build_id)
    return build_id


def _outcome(work: Work, found: dict[str, Any]) -> ActionOutcome:
    status = found["buildStatus"]
    if status != "SUCCEEDED":
        raise ActionFailedError("JobFailed", f"Build terminated with state: {status}{_reason(found)}")
    exported = {item["name"]: item["value"] for item in found.get("exportedEnvironmentVariables", [])}
    return ActionOutcome(work.outputs, variables=exported)


def _reason(found: dict[str, Any]) -> str:
    for phase in found["phases"]:
        if phase.get("phaseStatus") not in {None, "SUCCEEDED"}:
            for context in phase.get("contexts", []):
                why = f"Code: {context['statusCode']}, Message: {context['message']}"
                return f". Phase: {phase['phaseType']}, {why}"
    return ""
