"""InvokeEndpoint and InvokeEndpointWithResponseStream: send requests to the servers of endpoints.

They run in the data plane's event loop; whatever blocks (waiting for an instance, loading or unloading a
model) runs in threads.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, lru_cache, partial
from typing import NamedTuple, cast

from botocore.model import StructureShape

from tritonstack.triton import (
    TritonFailedError,
    TritonRequestError,
    TritonResponse,
    TritonTimeoutError,
    TritonUnreachableError,
)
from tritonstack.triton.connections import ResponseStream, in_thread
from tritonstack_local.sagemaker import rules
from tritonstack_local.sagemaker.hosting.capture import Message
from tritonstack_local.sagemaker.hosting.fleet import InstancePool, NoInstanceError
from tritonstack_local.sagemaker.hosting.hosting import Hosting
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance
from tritonstack_local.sagemaker.metrics import Exchange, RequestMetrics, Stopwatch
from tritonstack_local.sagemaker.records import DeploymentPlan
from tritonstack_local.sagemaker.rules import invalid_invocation
from tritonstack_local.sagemaker.servers.logs import log_group
from tritonstack_local.sagemaker.servers.models import HostedModels, LoadRejectedError
from tritonstack_local.sagemaker.streams import CONTENT_TYPE, messages, model_stream_error
from tritonstack_local.scope import Scope
from tritonstack_local.service import wire
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.event_loop import EventLoopThread
from tritonstack_local.service.wire import service_model

# AWS documents 25 MB for real-time endpoints; botocore's model still says 6 MiB, the limit of earlier years.
# SageMaker's timeout of containers.
INVOCATION_TIMEOUT_S = 60.0
# SageMaker's limit for a whole streamed response.
STREAM_TIMEOUT_S = 480.0
# Minimum time of a request after its model was loaded.
MIN_INVOCATION_S = 1.0
# The status of a multi-model container that lacks memory.
NO_ROOM = 507
# Maximum message length in the service model.
MESSAGE_LIMIT = 2048

INVOKE, STREAM = "InvokeEndpoint", "InvokeEndpointWithResponseStream"
OPERATIONS = (INVOKE, STREAM)
VARIANT_HEADER = "x-Amzn-Invoked-Production-Variant"
ATTRIBUTES_HEADER = "X-Amzn-SageMaker-Custom-Attributes"
_ATTRIBUTES = ATTRIBUTES_HEADER.lower()
DEFAULT_TYPE = "text/plain; charset=utf-8"
# Headers passed to the container, by field of the service model.
_HANDED_ON = ("ContentType", "Accept", "CustomAttributes", "InferenceId", "TargetModel")

_FREE_TEXT = ("CustomAttributes", "InferenceId")
PLAIN_TEXT = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,63}")
"""Valid values of the free-text fields, not all of them; a test compares it with the service model."""

SERVER_ERRORS = (LoadRejectedError, TritonFailedError, TritonRequestError)
SAFE_TARGET = re.compile(r"[A-Za-z0-9._/-]+")
_STEPS_ASIDE = {"", ".", ".."}

log = logging.getLogger(__name__)


class Invocations:
    """Serves both operations."""

    def __init__(
        self,
        *,
        hosting: Hosting,
        metrics: RequestMetrics,
        events: EventLoopThread,
        timeout_s: float = INVOCATION_TIMEOUT_S,
        stream_timeout_s: float = STREAM_TIMEOUT_S,
    ) -> None:
        self._hosting = hosting
        self._metrics = metrics
        self.events = events
        """The event loop in which both operations run."""
        self._timeout_s = timeout_s
        self._stream_timeout_s = stream_timeout_s

    async def invoke(self, *, scope: Scope, endpoint: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Handle one request; header names are in lower case."""
        call = self._call(INVOKE, scope, endpoint, headers, body, self._timeout_s)
        while True:
            async with self._reserved(call) as (pool, instance):
                try:
                    with self._counted(call, pool):
                        return await self._invoke(call, pool, instance)
                except TritonUnreachableError:  # it has not seen the request, so another one is tried
                    continue

    async def stream(
        self, *, scope: Scope, endpoint: str, headers: Mapping[str, str], body: bytes
    ) -> StreamedAnswer:
        """Handle one streaming request; return when the model has begun to respond."""
        call = self._call(STREAM, scope, endpoint, headers, body, self._stream_timeout_s)
        while True:
            exchange = self._exchange(call)
            with suppress(TritonUnreachableError):
                answered = cast("Mapping[str, str]", await anext(exchange))
                return StreamedAnswer(answered, messages(cast("AsyncGenerator[bytes, None]", exchange)))

    def _call(
        self,
        operation: str,
        scope: Scope,
        endpoint: str,
        headers: Mapping[str, str],
        body: bytes,
        timeout_s: float,
    ) -> _Call:
        watch = Stopwatch()
        names = _fields_by_header(operation)
        sent = [(names[name], value) for name, value in headers.items() if name in names]
        fields = _valid_fields(operation, endpoint, sent)
        return _Call(operation, scope, endpoint, fields, body, watch.began + timeout_s, watch)

    @asynccontextmanager
    async def _reserved(self, call: _Call) -> AsyncIterator[tuple[InstancePool, EndpointInstance]]:
        """Reserve an instance for a request."""
        variant, target = call.fields.get("TargetVariant"), call.fields.get("TargetModel")
        try:
            pool, instance = await self._hosting.reserve(
                call.scope, call.endpoint, variant=variant, target=target, deadline=call.deadline
            )
        except NoInstanceError as error:
            rejected = ServiceError(
                "ServiceUnavailable", "The service is unavailable. Try your call again.", status=503
            )
            self._count(call, error.pool, rejected.status)  # alarms on errors must count it
            raise rejected from error
        try:
            yield pool, instance
        finally:
            pool.release(instance)

    @contextmanager
    def _counted(self, call: _Call, pool: InstancePool) -> Iterator[None]:
        """Record the metrics of a request."""
        status = 500
        try:
            yield
            status = 200
        except (GeneratorExit, asyncio.CancelledError):  # the client left while the model responded
            status = 200
            raise
        except TritonUnreachableError:
            status = 0  # not counted: another instance is tried
            raise
        except ServiceError as error:
            status = _status_of(error)
            raise
        finally:
            if status:
                self._count(call, pool, status)

    def _count(self, call: _Call, pool: InstancePool, status: int) -> None:
        plan, watch = pool.plan, call.watch
        instances = self._hosting.instances_of(plan.scope, plan.endpoint, plan.variant)
        exchange = Exchange(status, watch.model_s, watch.overhead_s(), instances, pool.concurrency)
        self._metrics.note(plan.key, exchange)

    async def _invoke(self, call: _Call, pool: InstancePool, instance: EndpointInstance) -> Answer:
        try:
            answer = await _answered(call, instance)
        except SERVER_ERRORS as error:
            raise _explained(instance, error) from error
        if not 200 <= answer.status < 300:
            raise _model_error(pool.plan, answer.status, answer.body.decode(errors="replace"))
        _capture(pool, call, answer)
        return Answer(200, _passed_through(answer.headers, pool.plan.variant), answer.body)

    async def _exchange(self, call: _Call) -> AsyncGenerator[Mapping[str, str] | bytes, None]:
        """Yield the headers of a streamed response, then its body as it arrives.

        Errors before the headers are those of InvokeEndpoint. Whatever ends the generator ends the request.
        """
        async with self._reserved(call) as (pool, instance):
            began = time.monotonic()
            with self._counted(call, pool):
                try:
                    answer = await _begun(call, instance)
                except SERVER_ERRORS as error:
                    raise _explained(instance, error) from error
                try:
                    if not 200 <= answer.status < 300:
                        text = (await answer.whole()).decode(errors="replace")
                        raise _model_error(pool.plan, answer.status, text)
                    yield _streamed_headers(answer.headers, pool.plan.variant)
                    async for part in answer.parts():
                        yield part
                except TritonTimeoutError as error:
                    raise model_stream_error("ModelInvocationTimeExceeded") from error
                except TritonRequestError as error:
                    instance.doubt()
                    log.warning("%s: %s", instance.name, error.message)
                    raise model_stream_error("StreamBroken") from error
                finally:
                    call.watch.model_s += time.monotonic() - began
                    answer.close()


class Answer(NamedTuple):
    """A successful response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class StreamedAnswer(NamedTuple):
    """A successful response that is still arriving."""

    headers: Mapping[str, str]
    messages: AsyncGenerator[bytes, None]
    """Messages of the event stream."""


class _Call(NamedTuple):
    """One request."""

    operation: str
    scope: Scope
    endpoint: str
    fields: Mapping[str, str]
    body: bytes
    deadline: float
    watch: Stopwatch

    @property
    def left_s(self) -> float:
        """The remaining time."""
        return max(MIN_INVOCATION_S, self.deadline - time.monotonic())


@cache
def _input_shape(operation: str) -> StructureShape:
    return service_model("sagemaker-runtime").operation_model(operation).input_shape


@cache
def _handed_on() -> Mapping[str, str]:
    """Return the header of each field passed to the container."""
    members = _input_shape(INVOKE).members
    return {name: members[name].serialization["name"] for name in _HANDED_ON}


@cache
def _fields_by_header(operation: str) -> Mapping[str, str]:
    """Return the fields of the service model that are headers, by lower-case header name."""
    return {
        member.serialization["name"].lower(): name
        for name, member in _input_shape(operation).members.items()
        if member.serialization.get("location") == "header"
    }


def _valid_fields(operation: str, endpoint: str, sent: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    """Validate the fields of a request without its body.

    Fields that differ from request to request are first compared with a form that is always valid, because
    complete validation takes longer than all other work on a request.
    """
    own = {name: value for name, value in sent if name in _FREE_TEXT and PLAIN_TEXT.fullmatch(value)}
    if not own:
        return _checked_fields(operation, endpoint, tuple(sent))
    common = tuple([field for field in sent if field[0] not in own])
    return {**_checked_fields(operation, endpoint, common), **own}


@lru_cache(maxsize=1024)
def _checked_fields(operation: str, endpoint: str, sent: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Validate fields completely. Valid ones are cached: most requests repeat them."""
    fields = {"EndpointName": endpoint, **dict(sent)}
    try:
        wire.check(_input_shape(operation), {**fields, "Body": b""})
        rules.reject_unsupported(operation, fields)
        _check_target(fields)
    except ServiceError as error:  # the runtime uses another error code
        raise invalid_invocation(error.message) from error
    return fields


async def _answered(call: _Call, instance: EndpointInstance) -> TritonResponse:
    """Send a request to its model, loading it first if necessary."""
    models, target = instance.container.models, call.fields.get("TargetModel")
    if models is None:
        if target is not None:
            raise invalid_invocation(
                f"Endpoint {call.endpoint} is not a multi-model endpoint and does not support target model "
                "header."
            )
        return await _exchanged(call, instance, "/invocations")
    if target is None:
        raise invalid_invocation(
            f"Request {uuid.uuid4()} is missing a target model header: endpoint {call.endpoint} is a "
            "multi-model endpoint."
        )
    with models.reserved(target) as model:
        if not model.is_loaded:
            await in_thread(partial(model.wait, call.left_s))
        answer = await _exchanged(call, instance, model.path)
        # Once per request: a model that always lacks memory must not evict all others.
        if answer.status == NO_ROOM and await _is_relieved(models, timeout_s=call.left_s):
            answer = await _exchanged(call, instance, model.path)
        return answer


async def _begun(call: _Call, instance: EndpointInstance) -> ResponseStream:
    """Send a request to a single-model endpoint; return when its response has begun."""
    if instance.container.models is not None:  # the operation has no TargetModel
        raise invalid_invocation(
            f"Endpoint {call.endpoint} is a multi-model endpoint, which {STREAM} does not support."
        )
    return await instance.container.server.stream(
        "POST", "/invocations", body=call.body, headers=_container_headers(call), timeout_s=call.left_s
    )


async def _is_relieved(models: HostedModels, *, timeout_s: float) -> bool:
    """Return whether unloading an idle model freed memory for a request that lacked it."""
    return await in_thread(partial(models.relieve, timeout_s=timeout_s))


async def _exchanged(call: _Call, instance: EndpointInstance, path: str) -> TritonResponse:
    began = time.monotonic()
    try:
        return await instance.container.server.exchange(
            "POST", path, body=call.body, headers=_container_headers(call), timeout_s=call.left_s
        )
    finally:
        call.watch.model_s += time.monotonic() - began


def _container_headers(call: _Call) -> dict[str, str]:
    return {header: call.fields[name] for name, header in _handed_on().items() if name in call.fields}


def _explained(instance: EndpointInstance, error: Exception) -> Exception:
    """Return the service's error for one of the server; an unreachable server has not seen the request."""
    plan = instance.plan
    if isinstance(error, LoadRejectedError):
        return _model_error(plan, error.status, error.text)
    if isinstance(error, TritonTimeoutError):
        return _model_error(
            plan,
            0,
            "Your invocation timed out while waiting for a response from container "
            f"{plan.container}. Review the latency metrics for each container in Amazon "
            "CloudWatch, resolve the issue, and try again.",
        )
    instance.doubt()
    if isinstance(error, TritonUnreachableError):
        return TritonUnreachableError(error.message)
    log.warning("%s: %s", instance.name, error)
    return ServiceError(
        "InternalFailure",
        "An exception occurred while sending request to model. Please contact customer support "
        f"regarding request {uuid.uuid4()}.",
        status=500,
    )


def _check_target(fields: Mapping[str, str]) -> None:
    """Reject TargetModels that are unsafe for Triton or leave the prefix."""
    target = fields.get("TargetModel")
    if target is None or (SAFE_TARGET.fullmatch(target) and not _STEPS_ASIDE & set(target.split("/"))):
        return
    raise invalid_invocation(
        f"1 validation error detected: Value '{target}' at 'targetModel' failed to satisfy constraint: "
        "Member must be the path of an archive in letters, digits, '.', '_', '-' and '/', since Triton hands "
        "a model's name to a shell"
    )


def _capture(pool: InstancePool, call: _Call, answer: TritonResponse) -> None:
    if pool.capture is not None:
        request = Message(call.body, call.fields.get("ContentType", ""))
        answered = Message(answer.body, answer.headers.get("content-type", ""))
        pool.capture.note(request, answered, inference_id=call.fields.get("InferenceId"))


def _status_of(failure: ServiceError) -> int:
    """Return the status for metrics: the model's status if any."""
    return int(
        failure.fields.get("OriginalStatusCode") or (504 if failure.code == "ModelError" else failure.status)
    )


def _passed_through(sent: Mapping[str, str], variant: str) -> dict[str, str]:
    headers = {"Content-Type": sent.get("content-type", DEFAULT_TYPE), VARIANT_HEADER: variant}
    attributes = sent.get(_ATTRIBUTES)
    if attributes is not None:
        headers[ATTRIBUTES_HEADER] = attributes
    return headers


def _streamed_headers(sent: Mapping[str, str], variant: str) -> dict[str, str]:
    """Return the headers of an event stream: the model's content type has a header of its own."""
    headers = _passed_through(sent, variant)
    return {**headers, "X-Amzn-SageMaker-Content-Type": headers["Content-Type"], "Content-Type": CONTENT_TYPE}


def _model_error(plan: DeploymentPlan, status: int, text: str) -> ServiceError:
    """Return the error with the container's status and message; status 0 without response."""
    scope, endpoint = plan.scope, plan.endpoint
    group = log_group(endpoint)
    side = "client" if 400 <= status < 500 else "server"
    message = (
        f"Received {side} error ({status}) from {plan.container} with message "
        f'"{text[:MESSAGE_LIMIT]}". See '
        f"https://{scope.region}.console.aws.amazon.com/cloudwatch/home?region={scope.region}"
        f"#logEventViewer:group={group} in account {scope.account} for more information."
    )
    fields = {
        "OriginalStatusCode": status,
        "OriginalMessage": text[:MESSAGE_LIMIT],
        "LogStreamArn": scope.arn("logs", f"log-group:{group}"),
    }
    return ServiceError("ModelError", message, status=424, fields=fields)
