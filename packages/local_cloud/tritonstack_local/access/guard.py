"""Answer a request only if it is signed and not sent by a web page; deny others in their own protocol."""

from __future__ import annotations

import json
import logging
import traceback
import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote
from xml.sax.saxutils import escape

from werkzeug.wrappers import Response

from tritonstack.base.foreign_pages import foreign_reason
from tritonstack_local.access.keys import AccessKey
from tritonstack_local.access.requests import S3, DeniedError, Reason, SentRequest, check_length
from tritonstack_local.access.verifier import BodyCheck, Verifier
from tritonstack_local.scope import Caller
from tritonstack_local.state.folder import NotKeptError


class _Codes(NamedTuple):
    """A denial: the status and the error code of each protocol. JSON's status is 400, or 403 in REST."""

    status: int
    s3: str
    query: str
    json: str
    message: str


def _same(status: int, code: str, message: str) -> _Codes:
    """Return a denial that is the same in every protocol."""
    return _Codes(status, code, code, code, message)


_NOT_MATCHING = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
    "Access Key and signing method. Consult the service documentation for details."
)
_SKEWED = "The difference between the request time and the current time is too large."
_ACCESS_DENIED = _Codes(403, "AccessDenied", "AccessDenied", "AccessDeniedException", "Access Denied")
_DENIALS: Mapping[Reason, _Codes] = {
    Reason.FORBIDDEN: _ACCESS_DENIED,
    Reason.ACCESS_DENIED: _ACCESS_DENIED,
    Reason.MISSING: _Codes(
        403, "AccessDenied", "MissingAuthenticationToken", "MissingAuthenticationTokenException",
        "Request is missing Authentication Token",
    ),
    Reason.INCOMPLETE: _Codes(
        400, "AuthorizationHeaderMalformed", "IncompleteSignature", "IncompleteSignatureException",
        "The request signature does not conform to AWS standards.",
    ),
    Reason.UNSUPPORTED: _Codes(
        400, "InvalidRequest", "IncompleteSignature", "IncompleteSignatureException",
        "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.",
    ),
    Reason.UNKNOWN_KEY: _Codes(
        403, "InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException",
        "The security token included in the request is invalid.",
    ),
    Reason.INVALID_TOKEN: _Codes(
        403, "InvalidToken", "InvalidClientTokenId", "UnrecognizedClientException",
        "The security token included in the request is invalid.",
    ),
    Reason.EXPIRED_TOKEN: _Codes(
        403, "ExpiredToken", "ExpiredToken", "ExpiredTokenException",
        "The security token included in the request is expired",
    ),
    Reason.MISMATCH: _Codes(
        403, "SignatureDoesNotMatch", "SignatureDoesNotMatch", "InvalidSignatureException", _NOT_MATCHING
    ),
    Reason.SKEWED: _Codes(
        403, "RequestTimeTooSkewed", "SignatureDoesNotMatch", "InvalidSignatureException", _SKEWED
    ),
    Reason.PRESIGNED_EXPIRED: _Codes(
        403, "AccessDenied", "SignatureDoesNotMatch", "InvalidSignatureException", "Request has expired"
    ),
    Reason.BUSY: _Codes(
        503, "SlowDown", "ServiceUnavailable", "ServiceUnavailable", "Please reduce your request rate."
    ),
    Reason.INTERNAL: _Codes(
        500, "InternalError", "InternalFailure", "InternalFailure", "The request failed in the local cloud."
    ),
    Reason.PAYLOAD_MISMATCH: _same(
        400,
        "XAmzContentSHA256Mismatch",
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    ),
    Reason.BAD_DIGEST: _same(400, "BadDigest", "The checksum you specified did not match the content."),
    Reason.MISSING_PAYLOAD_HASH: _same(
        400, "InvalidRequest", "Missing required header for this request: x-amz-content-sha256"
    ),
    Reason.INCOMPLETE_BODY: _same(
        400, "IncompleteBody", "The request body terminated unexpectedly."
    ),
    Reason.INVALID_IDENTITY_TOKEN: _same(
        400,
        "InvalidIdentityToken",
        "Couldn't retrieve verification key from your identity provider, please reference "
        "AssumeRoleWithWebIdentity documentation for requirements",
    ),
    Reason.ENTITY_TOO_LARGE: _same(413, "RequestEntityTooLarge", "The request body is too large."),
    Reason.NO_SPACE: _same(400, "InsufficientStorage", "The disk of the local cloud is full."),
    Reason.NOT_IMPLEMENTED: _same(400, "UnknownOperationException", "The operation is not implemented."),
    Reason.PAYLOAD_TOO_LARGE: _same(400, "ValidationError", "The request body is too large."),
}  # fmt: skip


class _Error(NamedTuple):
    status: int
    code: str
    message: str


_S3_STATUS = {Reason.INVALID_TOKEN: 400, Reason.EXPIRED_TOKEN: 400}
"""Where it differs from that of the other protocols."""
_CBOR_LONGEST = 10_000
"""Characters of a text, whose length in bytes has 16 bits. A message may quote a header of 128 KiB."""
_EC2 = {
    Reason.UNKNOWN_KEY: "AuthFailure",
    Reason.INVALID_TOKEN: "AuthFailure",
    Reason.MISMATCH: "AuthFailure",
    Reason.SKEWED: "RequestExpired",
    Reason.EXPIRED_TOKEN: "RequestExpired",
    Reason.INTERNAL: "InternalError",
}


def denial_response(request: SentRequest, denied: DeniedError) -> Response:
    """Write a denial or a failure in the protocol of its request."""
    request_id, service = str(uuid.uuid4()), _claimed_service(request)
    codes = _DENIALS[denied.reason]
    message = denied.message or codes.message
    # JSON protocols deny with 400, REST services with 403. What no client of AWS sends gets 403 in all.
    is_denial = denied.reason is not Reason.FORBIDDEN and (codes.status == 403 or codes.json != codes.query)
    status = 400 if is_denial else codes.status
    if request.header("smithy-protocol") == "rpc-v2-cbor":
        return _cbor(_Error(status, codes.json, message), request_id)
    if "x-amz-target" in request.headers:
        error = _Error(status, codes.json, message)
        return _json(error, request_id, content_type="application/x-amz-json-1.1")
    media_type = (request.header("content-type") or "").partition(";")[0].strip().lower()
    if media_type == "application/x-www-form-urlencoded" or request.parameter("Action") is not None:
        error = _Error(codes.status, codes.query, message)
        return _query(error, request_id, service=service, reason=denied.reason)
    if service == S3 or (not service and not request.path.startswith("/endpoints/")):
        path = unquote(request.path, encoding="latin-1")
        status = _S3_STATUS.get(denied.reason, codes.status)
        return _s3(_Error(status, codes.s3, message), request_id, resource=path)
    error = _Error(403 if is_denial else status, codes.json, message)
    return _json(error, request_id, content_type="application/json")


def _claimed_service(request: SentRequest) -> str:
    """Return the service in the credential of a request, or nothing."""
    header = request.header("authorization") or ""
    credential = header.partition("Credential=")[2].partition(",")[0]
    parts = (request.parameter("X-Amz-Credential") or credential).split("/")
    return parts[3].lower() if len(parts) == 5 else ""


def _s3(error: _Error, request_id: str, *, resource: str) -> Response:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{error.code}</Code><Message>{escape(error.message)}</Message>"
        f"<Resource>{escape(resource)}</Resource><RequestId>{request_id}</RequestId></Error>"
    )
    headers = {"x-amz-request-id": request_id}
    return Response(body, error.status, content_type="application/xml", headers=headers)


def _query(error: _Error, request_id: str, *, service: str, reason: Reason) -> Response:
    headers = {"x-amzn-RequestId": request_id}
    message = escape(error.message)
    if service == "ec2":
        code = _EC2.get(reason, error.code)
        body = (
            f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
            f"<RequestID>{request_id}</RequestID></Response>"
        )
        status = 401 if code == "AuthFailure" else error.status
        return Response(body, status, content_type="text/xml", headers=headers)
    body = (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{error.code}</Code>"
        f"<Message>{message}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )
    return Response(body, error.status, content_type="text/xml", headers=headers)


def _json(error: _Error, request_id: str, *, content_type: str) -> Response:
    headers = {"x-amzn-RequestId": request_id, "x-amzn-ErrorType": error.code}
    body = json.dumps({"__type": error.code, "message": error.message})
    return Response(body, error.status, content_type=content_type, headers=headers)


def _cbor(error: _Error, request_id: str) -> Response:
    headers = {"x-amzn-RequestId": request_id, "smithy-protocol": "rpc-v2-cbor"}
    pairs = (("__type", error.code), ("message", error.message))
    body = b"\xa2" + b"".join(_cbor_text(name) + _cbor_text(value) for name, value in pairs)
    return Response(body, error.status, content_type="application/cbor", headers=headers)


def _cbor_text(text: str) -> bytes:
    data = text[:_CBOR_LONGEST].encode()
    return b"\x79" + len(data).to_bytes(2, "big") + data


_LINE_ENDS = str.maketrans("\r\n", "  ")
_SHORT = 6
"""Digits of a length that every service accepts."""

log = logging.getLogger(__name__)


class Guard:
    """Admits signed requests and denies all others."""

    def __init__(self, *, find_key: Callable[[str], AccessKey | None], port: int) -> None:
        self._verifier = Verifier(find_key)
        self._port = port

    def judge(self, request: SentRequest) -> BodyCheck:
        """Verify everything but the body, before any of it is read; return the check of the body."""
        reason = foreign_reason(request.method, request.headers, port=self._port, subject="The local cloud")
        if reason is not None:
            raise DeniedError(Reason.FORBIDDEN, reason)
        check = self._verifier.begin(request)
        announced = request.headers.get("content-length")
        if announced is not None and len(announced[0]) > _SHORT and not check.is_final:
            check_length(request, check.service)
        return check

    def admit(self, check: BodyCheck, body: bytes) -> Caller:
        """Verify a judged request with its whole body; return the signer."""
        check.payload.update(body)
        check.payload.finish()
        return check.caller

    def denial(self, request: SentRequest, error: Exception) -> Response:
        """Return the service's own response to a request that raised an error."""
        match error:
            case DeniedError():
                log.warning("denied %s %s: %s", request.method, request.path[:200], error)
                denied = error
            case NotKeptError():
                denied = DeniedError(Reason.NO_SPACE, str(error))
            case NotImplementedError():
                log.warning("%s", error)
                denied = DeniedError(Reason.NOT_IMPLEMENTED, f"{error} in the local cloud")
            case _:
                denied = _failure(request, error)
        return denial_response(request, denied)


def _failure(request: SentRequest, error: Exception) -> DeniedError:
    """Log an error of the local cloud in one line, and return the answer to its request."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    description = f"{type(error).__name__} {error!s:.300}".translate(_LINE_ENDS)
    log.error("%s %s failed: %s (%s:%s)", request.method, request.path[:200], description, *place[:2])
    log.debug("%s", request.path, exc_info=error)
    return DeniedError(Reason.INTERNAL)
