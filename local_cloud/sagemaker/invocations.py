"""InvokeEndpoint: one request to the server behind an endpoint, answered as SageMaker answers."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from botocore.model import StructureShape
from werkzeug.wrappers import Request, Response

from local_cloud.places import Place
from local_cloud.sagemaker import refusals, validation
from local_cloud.sagemaker.capture import Message
from local_cloud.sagemaker.deployment import Deployment
from local_cloud.sagemaker.faults import ServiceError, invocation_refused
from local_cloud.sagemaker.hosting import Hosting
from local_cloud.sagemaker.logs import log_group
from local_cloud.sagemaker.multi_model import LoadRefusedError
from local_cloud.sagemaker.wire import service_model
from triton_runtime import TritonFailedError, TritonRequestError, TritonResponse, TritonTimeoutError

# AWS documents 25 MB for real-time endpoints; botocore's model still says 6 MiB, the limit of earlier years.
PAYLOAD_LIMIT_BYTES = 25 * 1024 * 1024
# How long SageMaker waits for a container.
INVOCATION_TIMEOUT_S = 60.0
# What a request gets at least, when its model took nearly all of the time to load.
MIN_INVOCATION_S = 1.0
# The service model's limit for messages.
MESSAGE_LIMIT = 2048

VARIANT_HEADER = "x-Amzn-Invoked-Production-Variant"
ATTRIBUTES_HEADER = "X-Amzn-SageMaker-Custom-Attributes"
# What SageMaker hands on to the container, by the fields of the service model.
_HANDED_ON = ("ContentType", "Accept", "CustomAttributes", "InferenceId", "TargetModel")

SAFE_TARGET = re.compile(r"[A-Za-z0-9._/-]+")
_STEPS_ASIDE = {"", ".", ".."}


class Invocations:
    """Answers InvokeEndpoint."""

    def __init__(
        self,
        *,
        hosting: Hosting,
        payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
        timeout_s: float = INVOCATION_TIMEOUT_S,
    ) -> None:
        self._hosting = hosting
        self._payload_limit_bytes = payload_limit_bytes
        self._timeout_s = timeout_s

    def invoke(self, request: Request, *, place: Place, endpoint: str) -> Response:
        """Pass one request through."""
        fields = _fields(request, endpoint)
        body = self._body(request)
        with self._hosting.lease(place, endpoint, variant=fields.get("TargetVariant")) as deployment:
            answer = self._ask(deployment, body, fields)
            if not 200 <= answer.status < 300:
                raise _model_error(deployment, answer.status, answer.body.decode(errors="replace"))
            _keep(deployment, body, fields, answer)
            return _passed_through(answer, deployment.plan.variant)

    def _body(self, request: Request) -> bytes:
        if (request.content_length or 0) > self._payload_limit_bytes:
            raise self._too_large(request.content_length)
        body = request.get_data(cache=False)
        if len(body) > self._payload_limit_bytes:
            raise self._too_large(len(body))
        return body

    def _too_large(self, size: int | None) -> ServiceError:
        return invocation_refused(
            f"1 validation error detected: Value at 'body' failed to satisfy constraint: Member must have "
            f"length less than or equal to {self._payload_limit_bytes}, it has {size}"
        )

    def _ask(self, deployment: Deployment, body: bytes, fields: Mapping[str, str]) -> TritonResponse:
        shape = _input_shape()
        headers = {
            shape.members[name].serialization["name"]: fields[name] for name in _HANDED_ON if name in fields
        }
        deadline = time.monotonic() + self._timeout_s
        try:
            with _entrance(deployment, fields, timeout_s=self._timeout_s) as path:
                left_s = max(MIN_INVOCATION_S, deadline - time.monotonic())
                return deployment.server.request("POST", path, body=body, headers=headers, timeout_s=left_s)
        except LoadRefusedError as refused:
            raise _model_error(deployment, refused.status, refused.said) from refused
        except TritonTimeoutError as fault:
            raise _model_error(
                deployment,
                0,
                "Your invocation timed out while waiting for a response from container "
                f"{deployment.plan.container}. Review the latency metrics for each container in Amazon "
                "CloudWatch, resolve the issue, and try again.",
            ) from fault
        except (TritonFailedError, TritonRequestError) as fault:
            if not deployment.server.running:
                self._hosting.revive(deployment)
            raise ServiceError(
                "ServiceUnavailable", f"The container gave no answer: {fault.message}", status=503
            ) from fault


def _input_shape() -> StructureShape:
    return service_model("sagemaker-runtime").operation_model("InvokeEndpoint").input_shape


def _fields(request: Request, endpoint: str) -> dict[str, str]:
    """Read the request's headers, held against the service model; the body has a limit of its own."""
    shape = _input_shape()
    fields = {"EndpointName": endpoint}
    for name, member in shape.members.items():
        value = request.headers.get(member.serialization.get("name", ""))
        if member.serialization.get("location") == "header" and value is not None:
            fields[name] = value
    try:
        validation.check(shape, {**fields, "Body": b""})
        refusals.refuse_unbuilt("InvokeEndpoint", fields)
        _check_target(fields)
    except ServiceError as fault:  # the runtime spells the code of a refusal in its own way
        raise invocation_refused(fault.message) from fault
    return fields


@contextmanager
def _entrance(deployment: Deployment, fields: Mapping[str, str], *, timeout_s: float) -> Iterator[str]:
    """Give the path that asks the model a request is meant for, which is loaded first if it must be."""
    target, endpoint = fields.get("TargetModel"), deployment.plan.endpoint
    if deployment.models is None:
        if target is not None:
            raise invocation_refused(
                f"Endpoint {endpoint} is not a multi-model endpoint and does not support target model header."
            )
        yield "/invocations"
        return
    if target is None:
        raise invocation_refused(
            f"Request {uuid.uuid4()} is missing a target model header: endpoint {endpoint} is a multi-model "
            "endpoint."
        )
    with deployment.models.in_use(target, timeout_s=timeout_s) as path:
        yield path


def _check_target(fields: Mapping[str, str]) -> None:
    """Refuse TargetModels that SageMaker takes but no Triton should see, or that lead out of the prefix."""
    target = fields.get("TargetModel")
    if target is None or (SAFE_TARGET.fullmatch(target) and not _STEPS_ASIDE & set(target.split("/"))):
        return
    raise invocation_refused(
        f"1 validation error detected: Value '{target}' at 'targetModel' failed to satisfy constraint: "
        "Member must be the path of an archive in letters, digits, '.', '_', '-' and '/', since Triton hands "
        "a model's name to a shell"
    )


def _keep(deployment: Deployment, body: bytes, fields: Mapping[str, str], answer: TritonResponse) -> None:
    if deployment.capture is not None:
        asked = Message(body, fields.get("ContentType", ""))
        answered = Message(answer.body, answer.headers.get("content-type", ""))
        deployment.capture.note(asked, answered, inference_id=fields.get("InferenceId"))


def _passed_through(answer: TritonResponse, variant: str) -> Response:
    headers = {VARIANT_HEADER: variant}
    attributes = answer.headers.get(ATTRIBUTES_HEADER.lower())
    if attributes is not None:
        headers[ATTRIBUTES_HEADER] = attributes
    return Response(answer.body, status=200, headers=headers, content_type=answer.headers.get("content-type"))


def _model_error(deployment: Deployment, status: int, said: str) -> ServiceError:
    """Wrap the container's own status and words; 0 stands for a container that never answered."""
    place, endpoint = deployment.plan.place, deployment.plan.endpoint
    group = log_group(endpoint)
    side = "client" if 400 <= status < 500 else "server"
    message = (
        f"Received {side} error ({status}) from {deployment.plan.container} with message "
        f'"{said[:MESSAGE_LIMIT]}". See '
        f"https://{place.region}.console.aws.amazon.com/cloudwatch/home?region={place.region}"
        f"#logEventViewer:group={group} in account {place.account} for more information."
    )
    fields = {
        "OriginalStatusCode": status,
        "OriginalMessage": said[:MESSAGE_LIMIT],
        "LogStreamArn": place.arn("logs", f"log-group:{group}"),
    }
    return ServiceError("ModelError", message, status=424, fields=fields)
