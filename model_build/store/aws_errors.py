"""What S3 answers when something is wrong, in the words of this project."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from model_build.errors import ModelBuildError

MISSING_BUCKET_CODES = frozenset({"NoSuchBucket", "404", "NotFound"})
DENIED_CODES = frozenset({"AccessDenied", "403", "Forbidden", "AllAccessDisabled"})
CREDENTIAL_CODES = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"})
LOG_IN = "log in (for example `aws sso login`), or choose a profile with AWS_PROFILE"


def error_code(error: BotoCoreError | ClientError) -> str:
    """The code AWS gives an error, for example NoSuchBucket; empty where AWS was not reached."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def explain(
    error: BotoCoreError | ClientError,
    *,
    error_type: type[ModelBuildError],
    doing: str,
    bucket: str,
    missing_bucket_remedy: str,
) -> ModelBuildError:
    """The error to raise where `doing` something with `bucket` failed."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return error_type(f"{doing}: there are no AWS credentials", remedy=LOG_IN)
    code = error_code(error)
    if code in CREDENTIAL_CODES:
        return error_type(f"{doing}: AWS does not accept the credentials ({code})", remedy=LOG_IN)
    if code in MISSING_BUCKET_CODES:
        return error_type(f"{doing}: there is no bucket {bucket!r}", remedy=missing_bucket_remedy)
    if code in DENIED_CODES:
        return error_type(
            f"{doing}: access to bucket {bucket!r} was denied",
            remedy="check the account of your credentials, their rights in the bucket and on its KMS key",
        )
    return error_type(f"{doing}: {error}")
