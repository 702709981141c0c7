"""Every way a call of a Triton endpoint can fail, as a tree to catch from.

    EndpointClientError
    ├── RequestEncodingError            an input cannot be written as a Triton tensor; nothing was sent
    ├── MalformedReplyError             the endpoint answered 200 with something that is no Triton reply
    ├── UnsupportedReplyError           the reply needs a package that is not installed
    ├── UnsupportedSettingError         the light transport lacks a setting that boto3 has
    ├── ModelNamesError                 the names of an endpoint's models cannot be read
    ├── UnknownModelError               no model of that name is published; nothing was sent
    ├── QueuedRequestError              an asynchronous endpoint stored a failure, or no answer in time
    └── InvocationError                 InvokeEndpoint did not answer with success; carries RequestFacts
        ├── RequestRejectedError        the service rejected the request before any container saw it
        │   ├── EndpointNotFoundError   no such endpoint in this account and region, or not in service
        │   └── TargetNotFoundError     a multi-model endpoint has no archive of that TargetModel
        ├── AccessDeniedError           no, wrong or expired credentials, or no permission
        ├── ModelError                  the container answered, and not with 2xx
        │   ├── ModelRequestError       4xx: the container rejected the request
        │   ├── ModelFailedError        5xx: the model or the server failed
        │   │   ├── ModelOutOfMemoryError   507: memory ran out at load or inference (multi-model only)
        │   │   ├── StreamFailedError   the model failed after its response had begun
        │   │   └── NoResponseError     the model answered with no response at all
        │   ├── ModelTimeoutError       the container gave no answer within the service's time
        │   └── MultiModelError         400 with a target model: Triton says 400 for every kind of error there
        ├── ModelNotReadyError          a multi-model or serverless model is still being loaded
        ├── ThrottledError              too many requests for the account or the endpoint
        ├── ServiceUnavailableError     the service or the instance cannot take requests now
        ├── ServiceFailedError          the service failed inside, or one it depends on did
        ├── InvocationTimeoutError      this side gave up waiting
        └── ConnectionFailedError       no connection to the service, or it broke

Errors carry the facts of the request and the error of the service, never bodies or credentials.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tritonstack.base.error_kinds import MissingPackageError, UncheckedAnswerError
from tritonstack.base.errors import TritonstackError


class EndpointClientError(TritonstackError):
    """Anything that goes wrong between arrays in and arrays out."""


class RequestEncodingError(EndpointClientError):
    """The client cannot write an input as a Triton tensor; nothing was sent. Pass NumPy arrays of a supported
    type, or lists of strings.
    """

    code = "TS540"
    title = "Request cannot be encoded"


class MalformedReplyError(EndpointClientError):
    """The endpoint returned data that is not in Triton's format. Check that it runs a Triton container and
    that nothing in between changes its replies.
    """

    code = "TS541"
    title = "Malformed reply"

    def __init__(self, message: str) -> None:
        super().__init__(
            f"malformed reply: {message}",
            remedy="check that the endpoint runs a Triton container and that nothing alters its replies",
        )


class UnsupportedReplyError(EndpointClientError):
    """The reply is valid, but decoding it needs a package that is not installed."""

    code = MissingPackageError.code


class UnsupportedSettingError(EndpointClientError):
    """The light transport has no proxies, no retry mode `adaptive`, no endpoint URLs with a query, and no
    signatures other than version 4. Use boto3's transport, or change the setting.
    """

    code = "TS552"
    title = "Setting not supported by the light transport"

    def __init__(self, setting: str) -> None:
        super().__init__(
            f"the light transport does not support {setting}",
            remedy='pass runtime=boto3.client("sagemaker-runtime", ...) instead of LightRuntime(...)',
        )


class ModelNamesError(EndpointClientError):
    """There is no such endpoint in this account and region, it is not in service, or it has no model of the
    requested name. Check the name, the region, and the credentials. `tritonstack targets` lists the models of
    a multi-model endpoint.
    """

    code = "TS543"
    title = "Endpoint or model not found"


class UnknownModelError(EndpointClientError):
    """No model of that name is published; nothing was sent."""

    code = ModelNamesError.code

    def __init__(self, name: str, *, known: Collection[str], source: str) -> None:
        self.known = tuple(sorted(known))
        super().__init__(f"no model {name!r} is published at {source}", remedy=_suggested(name, self.known))


class QueuedRequestError(EndpointClientError):
    """An asynchronous endpoint stored a failure, or no answer in time."""

    code = UncheckedAnswerError.code


@dataclass(frozen=True)
class RequestFacts:
    """What was called; enough to find the request again, nothing of its content."""

    endpoint: str
    target_model: str | None = None
    target_variant: str | None = None
    inference_component: str | None = None

    def __str__(self) -> str:
        parts = [f"endpoint {self.endpoint}"]
        for label, value in (
            ("target model", self.target_model),
            ("variant", self.target_variant),
            ("inference component", self.inference_component),
        ):
            if value is not None:
                parts.append(f"{label} {value}")
        return ", ".join(parts)


@dataclass(frozen=True)
class ServiceErrorDetails:
    """The error code, message, and status of the service, and those of the container if it responded."""

    code: str
    message: str
    status: int | None = None
    original_status: int | None = None
    original_message: str | None = None


class InvocationError(EndpointClientError):
    """SageMaker or Triton rejected the request. Compare it with the limits of InvokeEndpoint, and names,
    shapes, and types of the inputs with the model's `config.pbtxt`. Multi-model endpoints use this status for
    most errors.
    """

    code = "TS542"
    title = "Request rejected"

    summary: ClassVar[str] = "the invocation failed"
    help_text: ClassVar[str | None] = None
    retryable: ClassVar[bool] = False  # whether the same request may succeed a moment later

    def __init__(self, *, request: RequestFacts, service: ServiceErrorDetails) -> None:
        self.request = request
        self.service = service
        message = service.original_message or service.message
        status = service.original_status if service.original_status is not None else service.status
        code = f" [{service.code}{f' {status}' if status is not None else ''}]"
        super().__init__(f"{request}: {self.summary}{code}: {message}", remedy=self.help_text)


class RequestRejectedError(InvocationError):
    """The service rejected the request before any container saw it."""

    summary = "the request was rejected"
    help_text = "compare the request with InvokeEndpoint's limits: names, headers, size of the body"


class EndpointNotFoundError(RequestRejectedError):
    """No such endpoint in this account and region, or it is not in service."""

    code = ModelNamesError.code

    summary = "the endpoint was not found"
    help_text = "check the endpoint's name, the region and the account of the credentials in use"


class TargetNotFoundError(RequestRejectedError):
    """A multi-model endpoint has no archive of that TargetModel."""

    code = ModelNamesError.code

    summary = "the target model was not found"
    help_text = "`tritonstack targets` lists the models of an endpoint; models=ModelNames(...) accepts names"

    def __init__(
        self, *, request: RequestFacts, service: ServiceErrorDetails, known: Collection[str] = ()
    ) -> None:
        super().__init__(request=request, service=service)
        if known:
            name = (request.target_model or "").partition("/")[0]
            self.remedy = _suggested(name, sorted(known))


class AccessDeniedError(InvocationError):
    """The credentials are missing, wrong, or expired, or do not allow `sagemaker:InvokeEndpoint`. Streamed
    responses also need `sagemaker:InvokeEndpointWithResponseStream`.
    """

    code = "TS544"
    title = "Access to the endpoint denied"

    summary = "access was denied"
    help_text = (
        "check the credentials in use and that they allow sagemaker:InvokeEndpoint here, and for streamed "
        "responses also sagemaker:InvokeEndpointWithResponseStream"
    )


class ModelError(InvocationError):
    """The model or its server failed with status 5xx or while it responded, sent no response, or ran out of
    memory. Compare the inputs with the model's configuration, read the log group of the endpoint, send
    smaller batches, or choose a larger instance.
    """

    code = "TS546"
    title = "Model failed"

    summary = "the container answered with an error"
    help_text = "read the endpoint's log group; it has the container's error"


class ModelRequestError(ModelError):
    """The container rejected the request (4xx)."""

    code = InvocationError.code

    summary = "the container rejected the request"
    help_text = "compare names, shapes and types of the inputs with the model's config.pbtxt"


class ModelFailedError(ModelError):
    """The model or its server failed (5xx). A single-model Triton answers 500 to malformed input too."""

    summary = "the model failed"
    help_text = "compare the inputs with the model's config.pbtxt, then read the endpoint's log group"


class ModelOutOfMemoryError(ModelFailedError):
    """Memory ran out while a model was loaded or ran (507)."""

    code = ModelError.code

    summary = "the container ran out of memory"
    help_text = "send smaller batches, host fewer models on the endpoint or choose a larger instance"
    retryable = True


class StreamFailedError(ModelFailedError):
    """The model failed after its response had begun: it reported an error, or its connection broke."""

    summary = "the model failed while it responded"
    help_text = "read the endpoint's log group; it has the container's error"


class NoResponseError(ModelFailedError):
    """A decoupled model or a language model ended its answer without a response."""

    summary = "the model sent no response"
    help_text = "send at least one response per request; the endpoint's log group has the container's output"


class ModelTimeoutError(ModelError):
    """The model did not answer within SageMaker's 60 seconds, or the client stopped waiting. Send smaller
    batches, or use an asynchronous endpoint.
    """

    code = "TS548"
    title = "Request timed out"

    summary = "the container did not answer in time"
    help_text = "send smaller batches or use an asynchronous endpoint"


class MultiModelError(ModelError):
    """A multi-model Triton returned 400, its status for invalid requests and failing models alike."""

    code = InvocationError.code

    summary = "the multi-model container returned 400, its status for most errors"
    help_text = "read the message: the status does not separate invalid requests from failing models"


class ModelNotReadyError(InvocationError):
    """The model is still loading, the service cannot take the request now, there are too many requests, or
    the connection failed. Wait a moment, and send it again; check the region, the network, and
    `AWS_ENDPOINT_URL`.
    """

    code = "TS549"
    title = "Endpoint is not available now"

    summary = "the model is not ready yet"
    help_text = "wait a moment and send the request again"
    retryable = True


class ThrottledError(InvocationError):
    """Too many requests for the account or the endpoint."""

    code = ModelNotReadyError.code

    summary = "the request was throttled"
    help_text = "send fewer requests at once, add instances or raise the quota"
    retryable = True


class ServiceUnavailableError(InvocationError):
    """The service or the instance cannot take requests now."""

    code = ModelNotReadyError.code

    summary = "the service is unavailable"
    help_text = "try again; if it lasts, look at the endpoint's status and instance count"
    retryable = True


class ServiceFailedError(InvocationError):
    """The service or one of its dependencies failed."""

    code = ModelNotReadyError.code

    summary = "the service failed"
    help_text = "try again; if it lasts, ask AWS Support with the request id"
    retryable = True


class InvocationTimeoutError(InvocationError):
    """The client timed out waiting for the service."""

    code = ModelTimeoutError.code

    summary = "the client timed out"
    help_text = "raise read_timeout in the boto3 client's Config (the service itself waits 60 s)"
    retryable = True


class ConnectionFailedError(InvocationError):
    """No connection to the service could be made, or it broke."""

    code = ModelNotReadyError.code

    summary = "the connection failed"
    help_text = "check the region, the network and AWS_ENDPOINT_URL"
    retryable = True


def _suggested(name: str, names: Sequence[str]) -> str:
    """Return the closest known name and the others, for a remedy."""
    import difflib  # noqa: PLC0415  needed for this error only

    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    listed = ", ".join(names[:10]) + (f", and {len(names) - 10} more" if len(names) > 10 else "")
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{guess}known models: {listed or 'none'}"
