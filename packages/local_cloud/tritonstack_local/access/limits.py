"""The largest bodies of requests, as AWS accepts them."""

from __future__ import annotations

from tritonstack_local.signatures.requests import DeniedError, Reason, SentRequest

RUNTIME_PREFIX = "/endpoints/"
PAYLOAD_LIMIT_BYTES = 25 * 1024 * 1024
"""Of InvokeEndpoint."""
_USUAL = 1 << 20
_LARGEST = {
    # A part of a layer has at most 20 MiB and is sent as base64.
    "ecr": 28 << 20,
    # Events have at most 1 MiB; control characters take six times as much in JSON.
    "logs": 8 << 20,
    "dynamodb": 16 << 20,
}


def largest_body(request: SentRequest, service: str) -> int:
    """Return the limit of a service other than S3, in bytes."""
    is_invocation = request.path.startswith(RUNTIME_PREFIX)
    return PAYLOAD_LIMIT_BYTES if is_invocation else _LARGEST.get(service, _USUAL)


def too_large(request: SentRequest, limit: int) -> DeniedError:
    """Return the denial of a larger body."""
    if request.path.startswith(RUNTIME_PREFIX):
        message = (
            "1 validation error detected: Value at 'body' failed to satisfy constraint: Member must have "
            f"length less than or equal to {limit}"
        )
        return DeniedError(Reason.PAYLOAD_TOO_LARGE, message)
    return DeniedError(Reason.ENTITY_TOO_LARGE, f"The request body exceeds {limit} bytes.")


def check_length(request: SentRequest, service: str) -> None:
    """Deny a request that announces a larger body."""
    length, limit = request.header("content-length") or "", largest_body(request, service)
    if length.isascii() and length.isdigit() and int(length[:20]) > limit:
        raise too_large(request, limit)
