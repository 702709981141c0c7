"""Write a denial in the protocol of the client."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from werkzeug.wrappers import Request, Response

from tritonstack_local.signatures.requests import S3, DeniedError, Reason

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_UNKNOWN = "The security token included in the request is invalid."
_EXPIRED = "The security token included in the request is expired"
_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
    "Access Key and signing method."
)
_CONSULT = f"{_MISMATCH} Consult the service documentation for details."
_MISSING = "Request is missing Authentication Token"
_INCOMPLETE = "The request signature does not conform to AWS standards."
_UNSUPPORTED = "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."


@dataclass(frozen=True)
class _Error:
    status: int
    code: str
    message: str


_OF_ALL: Mapping[Reason, _Error] = {
    Reason.FORBIDDEN: _Error(403, "AccessDenied", "Access Denied"),
    Reason.ACCESS_DENIED: _Error(403, "AccessDenied", "Access Denied"),
    Reason.PAYLOAD_MISMATCH: _Error(
        400,
        "XAmzContentSHA256Mismatch",
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    ),
    Reason.BAD_DIGEST: _Error(400, "BadDigest", "The checksum you specified did not match the content."),
    Reason.MISSING_PAYLOAD_HASH: _Error(
        400, "InvalidRequest", "Missing required header for this request: x-amz-content-sha256"
    ),
    Reason.INCOMPLETE_BODY: _Error(
        400, "IncompleteBody", "The request body terminated unexpectedly or is not valid aws-chunked data."
    ),
    Reason.INVALID_IDENTITY_TOKEN: _Error(
        400,
        "InvalidIdentityToken",
        "Couldn't retrieve verification key from your identity provider, please reference "
        "AssumeRoleWithWebIdentity documentation for requirements",
    ),
    Reason.ENTITY_TOO_LARGE: _Error(413, "RequestEntityTooLarge", "The request body is too large."),
    Reason.PAYLOAD_TOO_LARGE: _Error(400, "ValidationError", "The request body is too large."),
    Reason.BUSY: _Error(503, "ServiceUnavailable", "Please reduce your request rate."),
    Reason.INTERNAL: _Error(500, "InternalFailure", "The request failed in the local cloud."),
}

_S3: Mapping[Reason, _Error] = {
    **_OF_ALL,
    Reason.MISSING: _Error(403, "AccessDenied", "Access Denied"),
    Reason.INCOMPLETE: _Error(400, "AuthorizationHeaderMalformed", _INCOMPLETE),
    Reason.UNKNOWN_KEY: _Error(
        403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."
    ),
    Reason.INVALID_TOKEN: _Error(
        400, "InvalidToken", "The provided token is malformed or otherwise invalid."
    ),
    Reason.EXPIRED_TOKEN: _Error(400, "ExpiredToken", "The provided token has expired."),
    Reason.MISMATCH: _Error(403, "SignatureDoesNotMatch", _MISMATCH),
    Reason.SKEWED: _Error(
        403,
        "RequestTimeTooSkewed",
        "The difference between the request time and the current time is too large.",
    ),
    Reason.PRESIGNED_EXPIRED: _Error(403, "AccessDenied", "Request has expired"),
    Reason.UNSUPPORTED: _Error(400, "InvalidRequest", _UNSUPPORTED),
    Reason.BUSY: _Error(503, "SlowDown", "Please reduce your request rate."),
    Reason.INTERNAL: _Error(500, "InternalError", "The request failed in the local cloud."),
}

_QUERY: Mapping[Reason, _Error] = {
    **_OF_ALL,
    Reason.MISSING: _Error(403, "MissingAuthenticationToken", _MISSING),
    Reason.INCOMPLETE: _Error(400, "IncompleteSignature", _INCOMPLETE),
    Reason.UNKNOWN_KEY: _Error(403, "InvalidClientTokenId", _UNKNOWN),
    Reason.INVALID_TOKEN: _Error(403, "InvalidClientTokenId", _UNKNOWN),
    Reason.EXPIRED_TOKEN: _Error(403, "ExpiredToken", _EXPIRED),
    Reason.MISMATCH: _Error(403, "SignatureDoesNotMatch", _CONSULT),
    Reason.SKEWED: _Error(403, "SignatureDoesNotMatch", _CONSULT),
    Reason.PRESIGNED_EXPIRED: _Error(403, "SignatureDoesNotMatch", "Signature expired"),
    Reason.UNSUPPORTED: _Error(400, "IncompleteSignature", _UNSUPPORTED),
}

_JSON: Mapping[Reason, _Error] = {
    **_OF_ALL,
    Reason.FORBIDDEN: _Error(403, "AccessDeniedException", "Access Denied"),
    Reason.ACCESS_DENIED: _Error(400, "AccessDeniedException", "Access Denied"),
    Reason.MISSING: _Error(400, "MissingAuthenticationTokenException", "Missing Authentication Token"),
    Reason.INCOMPLETE: _Error(400, "IncompleteSignatureException", _INCOMPLETE),
    Reason.UNKNOWN_KEY: _Error(400, "UnrecognizedClientException", _UNKNOWN),
    Reason.INVALID_TOKEN: _Error(400, "UnrecognizedClientException", _UNKNOWN),
    Reason.EXPIRED_TOKEN: _Error(400, "ExpiredTokenException", _EXPIRED),
    Reason.MISMATCH: _Error(400, "InvalidSignatureException", _CONSULT),
    Reason.SKEWED: _Error(400, "InvalidSignatureException", _CONSULT),
    Reason.PRESIGNED_EXPIRED: _Error(400, "InvalidSignatureException", "Signature expired"),
    Reason.UNSUPPORTED: _Error(400, "IncompleteSignatureException", _UNSUPPORTED),
}

_EC2 = {
    Reason.UNKNOWN_KEY: "AuthFailure",
    Reason.INVALID_TOKEN: "AuthFailure",
    Reason.MISMATCH: "AuthFailure",
    Reason.SKEWED: "RequestExpired",
    Reason.EXPIRED_TOKEN: "RequestExpired",
    Reason.INTERNAL: "InternalError",
}


def denial_response(environ: WSGIEnvironment, denied: DeniedError, *, service: str) -> Response:
    """Write a denial or a failure; `service` is the signing name of the request, or empty."""
    request = Request(environ, shallow=True)
    request_id = str(uuid.uuid4())
    if request.headers.get("Smithy-Protocol") == "rpc-v2-cbor":
        return _cbor(_error(_JSON, denied), request_id)
    if "X-Amz-Target" in request.headers:
        return _json(_error(_JSON, denied), request_id, content_type="application/x-amz-json-1.1")
    if request.mimetype == "application/x-www-form-urlencoded" or "Action" in request.args:
        return _query(_error(_QUERY, denied), request_id, service=service, reason=denied.reason)
    if service == S3 or (not service and not request.path.startswith("/endpoints/")):
        return _s3(_error(_S3, denied), request_id, resource=request.path)
    error = _error(_JSON, denied)
    # REST services respond with 403, other JSON protocols with 400.
    status = error.status if denied.reason in _OF_ALL else 403
    error = _Error(status, error.code, error.message)
    return _json(error, request_id, content_type="application/json")


def _error(errors: Mapping[Reason, _Error], denied: DeniedError) -> _Error:
    usual = errors[denied.reason]
    return _Error(usual.status, usual.code, denied.message or usual.message)


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
    data = text.encode()
    return b"\x79" + len(data).to_bytes(2, "big") + data
