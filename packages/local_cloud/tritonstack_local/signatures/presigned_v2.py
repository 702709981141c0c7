"""Verify S3 URLs presigned with Signature Version 2, boto3's default in older regions."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime
from urllib.parse import unquote

from tritonstack_local.signatures.keys import AccessKey
from tritonstack_local.signatures.requests import DeniedError, Reason, SentRequest, split_query

SUBRESOURCES = frozenset(
    (  # noqa: SIM905 - a list literal would take 35 lines
        "accelerate acl analytics cors defaultObjectAcl delete inventory lifecycle location logging metrics "
        "notification object-lock partNumber policy replication requestPayment response-cache-control "
        "response-content-disposition response-content-encoding response-content-language "
        "response-content-type response-expires restore select select-type storageClass tagging torrent "
        "uploadId uploads versionId versioning versions website"
    ).split()
)
"""The parameters that are part of the signed resource."""


def is_presigned_v2(request: SentRequest) -> bool:
    """Return whether a query has a version 2 signature."""
    return request.parameter("AWSAccessKeyId") is not None


def check_presigned_v2(request: SentRequest, key: AccessKey, *, bucket: str, now: datetime) -> None:
    """Deny an expired or wrong signature; `bucket` is the bucket in the host name, or empty."""
    signature, expires = request.parameter("Signature"), request.parameter("Expires")
    if signature is None or expires is None or not expires.isascii() or not expires.isdigit():
        raise DeniedError(
            Reason.ACCESS_DENIED,
            "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters",
        )
    text = _string_to_sign(request, expires=expires, bucket=bucket)
    digest = hmac.digest(key.secret.encode(), text.encode("latin-1"), hashlib.sha1)
    if not hmac.compare_digest(base64.b64encode(digest), signature.encode("latin-1")):
        raise DeniedError(Reason.MISMATCH)
    if now.timestamp() > int(expires):
        raise DeniedError(Reason.PRESIGNED_EXPIRED)


def _string_to_sign(request: SentRequest, *, expires: str, bucket: str) -> str:
    given = {name.lower(): value for name, value in request.query_pairs}
    given |= {name: ",".join(value.strip() for value in values) for name, values in request.headers.items()}
    amazon = "".join(f"{name}:{given[name]}\n" for name in sorted(given) if name.startswith("x-amz-"))
    head = (request.method, given.get("content-md5", ""), given.get("content-type", ""), expires)
    return "\n".join(head) + "\n" + amazon + _resource(request, bucket)


def _resource(request: SentRequest, bucket: str) -> str:
    path = f"/{bucket}{request.path}" if bucket else request.path
    asked = sorted(
        (name, value, "=" in pair)
        for pair in request.query.split("&")
        for name, value in split_query(pair)
        if name in SUBRESOURCES
    )
    query = "&".join(
        f"{name}={unquote(value, encoding='latin-1')}" if has_value else name
        for name, value, has_value in asked
    )
    return f"{path}?{query}" if query else path
