"""InvokeEndpoint: send a request to the server of an endpoint."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from botocore.model import StructureShape
from werkzeug.wrappers import Request, Response

from tritonstack.runtime import (
    TritonFailedError,
    TritonRequestError,
    TritonResponse,
    TritonTimeoutError,
    TritonUnreachableError,
)
from tritonstack_local.sagemaker import unsupported
from tritonstack_local.sagemaker.errors import invalid_invocation
from tritonstack_local.sagemaker.hosting.capture import Message
from tritonstack_local.sagemaker.hosting.fleet import InstancePool, NoInstanceError
from tritonstack_local.sagemaker.hosting.hosting import Hosting
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance, RunningContainer
from tritonstack_local.sagemaker.multi_model import LoadRefusedError
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
# Headers passed to the container, by field of the service model.
_HANDED_ON = ("ContentType", "Accept", "CustomAttributes", "InferenceId", "TargetModel")

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

    def invoke(self, request: Request, *, scope: Scope, endpoint: str) -> Response:
        """Handle one request."""
        watch = Stopwatch()
        fields = _fields(request, endpoint)
        call = _Call(
            scope=scope,
            endpoint=endpoint,
            fields=fields,
            body=self._body(request),
            deadline=time.monotonic() + self._timeout_s,
            watch=watch,
        )
        answer: Response | None = None
        while answer is None:
            answer = self._try(call)
        return answer

    def _try(self, call: _Call) -> Response | None:
        """Send the request to one instance; None if it is unreachable and has not seen the request."""
        variant, target = call.fields.get("TargetVariant"), call.fields.get("TargetModel")
        try:
            with self._hosting.lease(
                call.scope, call.endpoint, variant=variant, target=target, deadline=call.deadline
            ) as (pool, instance):
                return self._measured(call, pool, instance)
        except TritonUnreachableError:
            return None
        except NoInstanceError as fault:
            refused = ServiceError(
                "ServiceUnavailable", "The service is unavailable. Try your call again.", status=503
            )
            self._count(call, fault.pool, refused.status)  # alarms on errors must count it
            raise refused from fault

    def _measured(self, call: _Call, pool: InstancePool, instance: EndpointInstance) -> Response:
        """Send the request, and record metrics."""
        status = 200
        try:
            return self._invoke(call, pool, instance)
        except TritonUnreachableError:
            status = 0  # not counted: another instance is tried
            raise
        except ServiceError as fault:
            status = _status_of(fault)
            raise
        finally:
            if status:
                self._count(call, pool, status)

    def _count(self, call: _Call, pool: InstancePool, status: int) -> None:
        plan = pool.plan
        exchange = Exchange(
            status=status,
            model_s=call.watch.model_s,
            overhead_s=call.watch.overhead_s(),
            instances=self._hosting.instances_of(plan.scope, plan.endpoint, plan.variant),
            concurrent=pool.requests,
        )
        self._metrics.note(MeasuredVariant(plan.scope, plan.endpoint, plan.variant), exchange)

    def _invoke(self, call: _Call, pool: InstancePool, instance: EndpointInstance) -> Response:
        answer = self._ask(call, instance)
        if not 200 <= answer.status < 300:
            raise _model_error(pool.plan, answer.status, answer.body.decode(errors="replace"))
        _capture(pool, call, answer)
        return _passed_through(answer, pool.plan.variant)

    def _body(self, request: Request) -> bytes:
        if (request.content_length or 0) > self._payload_limit_bytes:
            raise self._too_large(request.content_length)
        body = request.get_data(cache=False)
        if len(body) > self._payload_limit_bytes:
            raise self._too_large(len(body))
        return body

    def _too_large(self, size: int | None) -> ServiceError:
        return invalid_invocation(
            f"1 validation error detected: Value at 'body' failed to satisfy constraint: Member must have "
            f"length less than or equal to {self._payload_limit_bytes}, it has {size}"
        )

    def _ask(self, call: _Call, instance: EndpointInstance) -> TritonResponse:
        shape, fields, plan = _input_shape(), call.fields, instance.plan
        headers = {
            shape.members[name].serialization["name"]: fields[name] for name in _HANDED_ON if name in fields
        }
        container = instance.container
        try:
            with _entrance(container, plan, fields, timeout_s=call.left_s) as path, call.watch.in_model():
                ask = partial(container.server.request, "POST", path, body=call.body, headers=headers)
                answer = ask(timeout_s=call.left_s)
                # Once per request: a model that always lacks memory must not evict all others.
                if _is_relieved(container, answer, timeout_s=call.left_s):
                    answer = ask(timeout_s=call.left_s)
                return answer
        except LoadRefusedError as refused:
            raise _model_error(plan, refused.status, refused.text) from refused
        except TritonTimeoutError as fault:
            raise _model_error(
                plan,
                0,
                "Your invocation timed out while waiting for a response from container "
                f"{plan.container}. Review the latency metrics for each container in Amazon "
                "CloudWatch, resolve the issue, and try again.",
            ) from fault
        except TritonUnreachableError:
            instance.doubt()
            raise
        except (TritonFailedError, TritonRequestError) as fault:
            instance.doubt()
            log.warning("%s: %s", instance.name, fault.message)
            raise ServiceError(
                "InternalFailure",
                "An exception occurred while sending request to model. Please contact customer support "
                f"regarding request {uuid.uuid4()}.",
                status=500,
            ) from fault


@dataclass(frozen=True)
class _Call:
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


def _input_shape() -> StructureShape:
    return service_model("sagemaker-runtime").operation_model("InvokeEndpoint").input_shape


def _fields(request: Request, endpoint: str) -> dict[str, str]:
    """Read and validate the request's headers; the body has a separate limit."""
    shape = _input_shape()
    fields = {"EndpointName": endpoint}
    for name, member in shape.members.items():
        value = request.headers.get(member.serialization.get("name", ""))
        if member.serialization.get("location") == "header" and value is not None:
            fields[name] = value
    try:
        validation.check(shape, {**fields, "Body": b""})
        unsupported.reject_unsupported("InvokeEndpoint", fields)
        _check_target(fields)
    except ServiceError as fault:  # the runtime uses another error code
        raise invalid_invocation(fault.message) from fault
    return fields


@contextmanager
def _entrance(
    container: RunningContainer, plan: DeploymentPlan, fields: Mapping[str, str], *, timeout_s: float
) -> Iterator[str]:
    """Return the path of a request's model, loading it first if necessary."""
    target = fields.get("TargetModel")
    if container.models is None:
        if target is not None:
            raise invalid_invocation(
                f"Endpoint {plan.endpoint} is not a multi-model endpoint and does not support target model "
                "header."
            )
        yield "/invocations"
        return
    if target is None:
        raise invalid_invocation(
            f"Request {uuid.uuid4()} is missing a target model header: endpoint {plan.endpoint} is a "
            "multi-model endpoint."
        )
    with container.models.in_use(target, timeout_s=timeout_s) as path:
        yield path


def _is_relieved(container: RunningContainer, answer: TritonResponse, *, timeout_s: float) -> bool:
    """Return whether unloading an idle model freed memory for a request that lacked it."""
    if answer.status != NO_ROOM or container.models is None:
        return False
    return container.models.relieve(timeout_s=timeout_s)


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


def _status_of(fault: ServiceError) -> int:
    """Return the status for metrics: the model's status if any."""
    return int(
        fault.fields.get("OriginalStatusCode") or (504 if fault.code == "ModelError" else fault.status)
    )


def _passed_through(answer: TritonResponse, variant: str) -> Response:
    headers = {VARIANT_HEADER: variant}
    attributes = answer.headers.get(ATTRIBUTES_HEADER.lower())
    if attributes is not None:
        headers[ATTRIBUTES_HEADER] = attributes
    return Response(answer.body, status=200, headers=headers, content_type=answer.headers.get("content-type"))


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
