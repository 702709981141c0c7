"""Turn S3 errors into errors of this project."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from model_build.errors import ModelBuildError
from tritonstack.base.errors import aws_error_code

MISSING_BUCKET_CODES = frozenset({"NoSuchBucket", "404", "NotFound"})
DENIED_CODES = frozenset({"AccessDenied", "403", "Forbidden", "AllAccessDisabled"})
CREDENTIAL_CODES = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"})
LOG_IN = "log in (for example, `aws sso login`), or set AWS_PROFILE"


def explain(
    error: BotoCoreError | ClientError,
    *,
    error_type: type[ModelBuildError],
    doing: str,
    bucket: str,
    missing_bucket_remedy: str,
) -> ModelBuildError:
    """Return the error for a failed S3 operation on `bucket`."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return error_type(f"{doing}: no AWS credentials", remedy=LOG_IN)
    code = aws_error_code(error)
    if code in CREDENTIAL_CODES:
        return error_type(f"{doing}: AWS rejected the credentials ({code})", remedy=LOG_IN)
    if code in MISSING_BUCKET_CODES:
        return error_type(f"{doing}: bucket {bucket!r} does not exist", remedy=missing_bucket_remedy)
    if code in DENIED_CODES:
        return error_type(
            f"{doing}: access to bucket {bucket!r} denied",
            remedy="check the account and the permissions on the bucket and its KMS key",
        )
    return error_type(
        f"{doing}: {error}", remedy="retry; if it fails again, check the network and the service's status"
    )
