"""InvokeEndpoint: send a request to the server of an endpoint, from the data plane's event loop.

Whatever blocks (waiting for an instance, loading or unloading a model) runs in threads.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import NamedTuple

from botocore.model import StructureShape

from tritonstack.runtime import (
    TritonFailedError,
    TritonRequestError,
    TritonResponse,
    TritonTimeoutError,
    TritonUnreachableError,
)
from tritonstack.runtime.async_connections import in_thread
from tritonstack_local.sagemaker import unsupported
from tritonstack_local.sagemaker.errors import invalid_invocation
from tritonstack_local.sagemaker.hosting.capture import Message
from tritonstack_local.sagemaker.hosting.fleet import InstancePool, NoInstanceError
from tritonstack_local.sagemaker.hosting.hosting import Hosting
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance
from tritonstack_local.sagemaker.multi_model import HostedModels, LoadRejectedError
from tritonstack_local.sagemaker.records import DeploymentPlan
from tritonstack_local.sagemaker.runtime.metrics import Exchange, MeasuredVariant, RequestMetrics, Stopwatch
from tritonstack_local.sagemaker.servers.logs import log_group
from tritonstack_local.scope import Scope
from tritonstack_local.service import validation
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import service_model

# AWS documents 25 MB for real-time endpoints; botocore's model still says 6 MiB, the limit of earlier years.
PAYLOAD_LIMIT_BYTES = 25 * 1024 * 1024
# SageMaker's timeout of containers.
INVOCATION_TIMEOUT_S = 60.0
# Minimum time of a request after its model was loaded.
MIN_INVOCATION_S = 1.0
# The status of a multi-model container that lacks memory.
NO_ROOM = 507
# Maximum message length in the service model.
MESSAGE_LIMIT = 2048

VARIANT_HEADER = "x-Amzn-Invoked-Production-Variant"
ATTRIBUTES_HEADER = "X-Amzn-SageMaker-Custom-Attributes"
_ATTRIBUTES = ATTRIBUTES_HEADER.lower()
DEFAULT_TYPE = "text/plain; charset=utf-8"
# Headers passed to the container, by field of the service model.
_HANDED_ON = ("ContentType", "Accept", "CustomAttributes", "InferenceId", "TargetModel")

_FREE_TEXT = ("CustomAttributes", "InferenceId")
PLAIN_TEXT = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,63}")
"""Valid values of the free-text fields, not all of them; a test compares it with the service model."""

SAFE_TARGET = re.compile(r"[A-Za-z0-9._/-]+")
_STEPS_ASIDE = {"", ".", ".."}

log = logging.getLogger(__name__)


class Invocations:
    """Serves InvokeEndpoint."""

    def __init__(
        self,
        *,
        hosting: Hosting,
        metrics: RequestMetrics,
        payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
        timeout_s: float = INVOCATION_TIMEOUT_S,
    ) -> None:
        self._hosting = hosting
        self._metrics = metrics
        self._payload_limit_bytes = payload_limit_bytes
        self._timeout_s = timeout_s

    def check_size(self, size: int) -> None:
        """Reject a request body that is too large."""
        if size > self._payload_limit_bytes:
            raise invalid_invocation(
                f"1 validation error detected: Value at 'body' failed to satisfy constraint: Member must "
                f"have length less than or equal to {self._payload_limit_bytes}, it has {size}"
            )

    async def invoke(self, *, scope: Scope, endpoint: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Handle one request; header names are in lower case."""
        watch = Stopwatch()
        names = _fields_by_header()
        sent = [(names[name], value) for name, value in headers.items() if name in names]
        fields = _valid_fields(endpoint, sent)
        self.check_size(len(body))
        call = _Call(scope, endpoint, fields, body, watch.began + self._timeout_s, watch)
        answer: Answer | None = None
        while answer is None:
            answer = await self._try(call)
        return answer

    async def _try(self, call: _Call) -> Answer | None:
        """Send the request to one instance; None if it is unreachable and has not seen the request."""
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
            return await self._measured(call, pool, instance)
        except TritonUnreachableError:
            return None
        finally:
            pool.release(instance)

    async def _measured(self, call: _Call, pool: InstancePool, instance: EndpointInstance) -> Answer:
        """Send the request, and record metrics."""
        status = 500
        try:
            answer = await self._invoke(call, pool, instance)
            status = 200
            return answer
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
        exchange = Exchange(status, watch.model_s, watch.overhead_s(), instances, pool.requests)
        self._metrics.note(MeasuredVariant(plan.scope, plan.endpoint, plan.variant), exchange)

    async def _invoke(self, call: _Call, pool: InstancePool, instance: EndpointInstance) -> Answer:
        answer = await self._ask(call, instance)
        if not 200 <= answer.status < 300:
            raise _model_error(pool.plan, answer.status, answer.body.decode(errors="replace"))
        _capture(pool, call, answer)
        return _passed_through(answer, pool.plan.variant)

    async def _ask(self, call: _Call, instance: EndpointInstance) -> TritonResponse:
        plan = instance.plan
        try:
            return await _answered(call, instance)
        except LoadRejectedError as rejected:
            raise _model_error(plan, rejected.status, rejected.text) from rejected
        except TritonTimeoutError as error:
            raise _model_error(
                plan,
                0,
                "Your invocation timed out while waiting for a response from container "
                f"{plan.container}. Review the latency metrics for each container in Amazon "
                "CloudWatch, resolve the issue, and try again.",
            ) from error
        except TritonUnreachableError:
            instance.doubt()
            raise
        except (TritonFailedError, TritonRequestError) as error:
            instance.doubt()
            log.warning("%s: %s", instance.name, error.message)
            raise ServiceError(
                "InternalFailure",
                "An exception occurred while sending request to model. Please contact customer support "
                f"regarding request {uuid.uuid4()}.",
                status=500,
            ) from error


class Answer(NamedTuple):
    """A successful response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Call(NamedTuple):
    """One request."""

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
def _input_shape() -> StructureShape:
    return service_model("sagemaker-runtime").operation_model("InvokeEndpoint").input_shape


@cache
def _handed_on() -> Mapping[str, str]:
    """Return the header of each field passed to the container."""
    members = _input_shape().members
    return {name: members[name].serialization["name"] for name in _HANDED_ON}


@cache
def _fields_by_header() -> Mapping[str, str]:
    """Return the fields of the service model that are headers, by lower-case header name."""
    return {
        member.serialization["name"].lower(): name
        for name, member in _input_shape().members.items()
        if member.serialization.get("location") == "header"
    }


def _valid_fields(endpoint: str, sent: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    """Validate the fields of a request without its body.

    Fields that differ from request to request are first compared with a form that is always valid, because
    complete validation takes longer than all other work on a request.
    """
    own = {name: value for name, value in sent if name in _FREE_TEXT and PLAIN_TEXT.fullmatch(value)}
    if not own:
        return _checked_fields(endpoint, tuple(sent))
    common = tuple([field for field in sent if field[0] not in own])
    return {**_checked_fields(endpoint, common), **own}


@lru_cache(maxsize=1024)
def _checked_fields(endpoint: str, sent: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Validate fields completely. Valid ones are cached: most requests repeat them."""
    fields = {"EndpointName": endpoint, **dict(sent)}
    try:
        validation.check(_input_shape(), {**fields, "Body": b""})
        unsupported.reject_unsupported("InvokeEndpoint", fields)
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


async def _is_relieved(models: HostedModels, *, timeout_s: float) -> bool:
    """Return whether unloading an idle model freed memory for a request that lacked it."""
    return await in_thread(partial(models.relieve, timeout_s=timeout_s))


async def _exchanged(call: _Call, instance: EndpointInstance, path: str) -> TritonResponse:
    fields = call.fields
    headers = {header: fields[name] for name, header in _handed_on().items() if name in fields}
    began = time.monotonic()
    try:
        return await instance.container.server.exchange(
            "POST", path, body=call.body, headers=headers, timeout_s=call.left_s
        )
    finally:
        call.watch.model_s += time.monotonic() - began


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
        asked = Message(call.body, call.fields.get("ContentType", ""))
        answered = Message(answer.body, answer.headers.get("content-type", ""))
        pool.capture.note(asked, answered, inference_id=call.fields.get("InferenceId"))


def _status_of(failure: ServiceError) -> int:
    """Return the status for metrics: the model's status if any."""
    return int(
        failure.fields.get("OriginalStatusCode") or (504 if failure.code == "ModelError" else failure.status)
    )


def _passed_through(answer: TritonResponse, variant: str) -> Answer:
    headers = {"Content-Type": answer.headers.get("content-type", DEFAULT_TYPE), VARIANT_HEADER: variant}
    attributes = answer.headers.get(_ATTRIBUTES)
    if attributes is not None:
        headers[ATTRIBUTES_HEADER] = attributes
    return Answer(200, headers, answer.body)


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
