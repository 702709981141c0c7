"""Map botocore's exceptions for InvokeEndpoint to this package's errors."""

from __future__ import annotations

from botocore.eventstream import ParserError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    HTTPClientError,
    NoAuthTokenError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from botocore.exceptions import (
    ConnectionError as BotocoreConnectionError,
)
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as HTTPTimeoutError

from tritonstack.client.errors import (
    AccessDeniedError,
    ConnectionFailedError,
    EndpointNotFoundError,
    InvocationError,
    InvocationTimeoutError,
    ModelError,
    ModelFailedError,
    ModelNotReadyError,
    ModelOutOfMemoryError,
    ModelRequestError,
    ModelTimeoutError,
    MultiModelError,
    RequestFacts,
    RequestRejectedError,
    ServiceErrorDetails,
    ServiceFailedError,
    ServiceUnavailableError,
    StreamFailedError,
    TargetNotFoundError,
    ThrottledError,
)

# Codes of the service model of InvokeEndpoint, then those that any AWS service may answer.
ERRORS_BY_CODE: dict[str, type[InvocationError]] = {
    "ValidationError": RequestRejectedError,
    "ValidationException": RequestRejectedError,
    "ModelError": ModelError,
    "ModelStreamError": StreamFailedError,
    "InternalStreamFailure": ServiceFailedError,
    "ModelNotReadyException": ModelNotReadyError,
    "ServiceUnavailable": ServiceUnavailableError,
    "ServiceUnavailableException": ServiceUnavailableError,
    "InternalFailure": ServiceFailedError,
    "InternalServerException": ServiceFailedError,
    "InternalDependencyException": ServiceFailedError,
    "ThrottlingException": ThrottledError,
    "Throttling": ThrottledError,
    "TooManyRequestsException": ThrottledError,
    "RequestLimitExceeded": ThrottledError,
    "AccessDeniedException": AccessDeniedError,
    "AccessDenied": AccessDeniedError,
    "ExpiredTokenException": AccessDeniedError,
    "ExpiredToken": AccessDeniedError,
    "UnrecognizedClientException": AccessDeniedError,
    "InvalidClientTokenId": AccessDeniedError,
    "InvalidSignatureException": AccessDeniedError,
    "MissingAuthenticationTokenException": AccessDeniedError,
    "IncompleteSignature": AccessDeniedError,
}

# botocore exceptions without a response of the service; the first match wins.
ERRORS_BY_EXCEPTION: tuple[tuple[type[BotoCoreError], type[InvocationError]], ...] = (
    (ReadTimeoutError, InvocationTimeoutError),
    (ConnectTimeoutError, InvocationTimeoutError),
    (ParamValidationError, RequestRejectedError),
    (NoCredentialsError, AccessDeniedError),
    (PartialCredentialsError, AccessDeniedError),
    (NoAuthTokenError, AccessDeniedError),
    (ResponseStreamingError, ConnectionFailedError),
    (BotocoreConnectionError, ConnectionFailedError),
    (HTTPClientError, ConnectionFailedError),
)


_NO_ARCHIVE = "Failed to download model data(bucket"
"""SageMaker's message about a TargetModel without an object in S3."""
_TARGET_HEADER = "target model header"
"""In SageMaker's messages about a TargetModel that is missing, or that an endpoint does not take."""
_ADD_TARGET = "pass target_model: the endpoint has several models; `tritonstack targets` lists them"
_OMIT_TARGET = "omit target_model: the endpoint has one model"


def invocation_error(raised: ClientError | BotoCoreError, *, request: RequestFacts) -> InvocationError:
    """Return the error for a botocore exception."""
    if isinstance(raised, ClientError):
        service = _service_error(raised)
        error = _answered(service, request)(request=request, service=service)
        if _TARGET_HEADER in service.message.lower():
            error.remedy = _ADD_TARGET if request.target_model is None else _OMIT_TARGET
        return error
    service = ServiceErrorDetails(code=type(raised).__name__, message=str(raised))
    for botocore_error, kind in ERRORS_BY_EXCEPTION:
        if isinstance(raised, botocore_error):
            return kind(request=request, service=service)
    return InvocationError(request=request, service=service)


def broken_stream(raised: HTTPError | ParserError, *, request: RequestFacts) -> InvocationError:
    """Return the error for a response that stops, or is damaged, after it has begun."""
    service = ServiceErrorDetails(code=type(raised).__name__, message=str(raised))
    error = InvocationTimeoutError if isinstance(raised, HTTPTimeoutError) else ConnectionFailedError
    return error(request=request, service=service)


def _service_error(raised: ClientError) -> ServiceErrorDetails:
    response = raised.response
    error = response.get("Error", {})
    return ServiceErrorDetails(
        code=str(error.get("Code", "Unknown")),
        message=str(error.get("Message", "")),
        status=response.get("ResponseMetadata", {}).get("HTTPStatusCode"),
        original_status=response.get("OriginalStatusCode"),
        original_message=response.get("OriginalMessage"),
    )


def _answered(service: ServiceErrorDetails, request: RequestFacts) -> type[InvocationError]:
    error = ERRORS_BY_CODE.get(service.code) or _by_status(service.status)
    if error is ModelError:
        return _model_error(service, request)
    if error is RequestRejectedError and "not found" in service.message and "Endpoint" in service.message:
        return EndpointNotFoundError
    if error is RequestRejectedError and request.target_model and _NO_ARCHIVE in service.message:
        return TargetNotFoundError
    return error


def _by_status(status: int | None) -> type[InvocationError]:
    """Choose the error by status for unknown codes: proxies and gateways respond without AWS's codes."""
    if status == 403:
        return AccessDeniedError
    if status == 429:
        return ThrottledError
    if status == 503:
        return ServiceUnavailableError
    if status is not None and status >= 500:
        return ServiceFailedError
    return RequestRejectedError if status is not None and status >= 400 else InvocationError


def _model_error(service: ServiceErrorDetails, request: RequestFacts) -> type[ModelError]:
    status = service.original_status
    if status is None:
        return ModelError
    if status == 0:  # the service's status for a container that never responded
        return ModelTimeoutError
    if status == 507:
        return ModelOutOfMemoryError
    if status == 400 and request.target_model is not None:
        return MultiModelError
    return ModelRequestError if 400 <= status < 500 else ModelFailedError
