"""S3 source: copy the archive into the artifact store."""

from __future__ import annotations

from botocore.exceptions import ClientError

from tritonstack_local.codepipeline.actions.work import ActionOutcome, Work
from tritonstack_local.codepipeline.errors import ActionFailedError


def fetch(work: Work) -> ActionOutcome:
    """Copy the object, and record its version."""
    bucket, key, s3 = work.setting("S3Bucket"), work.setting("S3ObjectKey"), work.client("s3")
    if s3.get_bucket_versioning(Bucket=bucket).get("Status") != "Enabled":
        raise ActionFailedError("ConfigurationError", f"The S3 bucket {bucket} must have versioning enabled")
    asked = {"VersionId": work.revision} if work.revision else {}
    try:
        found = s3.head_object(Bucket=bucket, Key=key, **asked)
    except ClientError as fault:
        code = fault.response["Error"]["Code"]
        raise ActionFailedError(
            "ConfigurationError", f"The object with key '{key}' in bucket '{bucket}' cannot be read: {code}"
        ) from fault
    version = found["VersionId"]
    for output in work.outputs.values():
        source = {"Bucket": bucket, "Key": key, "VersionId": version}
        work.store.copy_object(Bucket=work.bucket, Key=output, CopySource=source)
    told = {"BucketName": bucket, "ETag": found["ETag"].strip('"'), "ObjectKey": key, "VersionId": version}
    return ActionOutcome(work.outputs, version, told, f"Amazon S3 version id: {version}")
