"""Calls one Triton endpoint through SageMaker's InvokeEndpoint, synchronously or from asyncio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.client.classification import ScoredClass, TopClasses, parse_classes
from tritonstack.client.codec import JSON_CONTENT_TYPE, Array, Parameter, Tensor, decode_reply, encode_request
from tritonstack.client.errors import MalformedReplyError, RequestFacts
from tritonstack.client.failures import invocation_error


class SageMakerRuntime(Protocol):
    """The operation of boto3's `sagemaker-runtime` client that EndpointClient uses."""

    def invoke_endpoint(self, **kwargs: Any) -> Mapping[str, Any]:
        """Send one request to an endpoint."""


@runtime_checkable
class AsyncSageMakerRuntime(Protocol):
    """A runtime that asyncio programs call without a thread: LightRuntime."""

    async def ainvoke_endpoint(self, **kwargs: Any) -> Mapping[str, Any]:
        """Send one request to an endpoint."""


class EndpointClient:
    """Infers on one endpoint. Threads may share it, as they may share boto3's client."""

    def __init__(
        self,
        *,
        endpoint_name: str,
        runtime: SageMakerRuntime | None = None,
        target_model: str | None = None,
        target_variant: str | None = None,
        inference_component: str | None = None,
    ) -> None:
        """Create a client; without `runtime` it calls AWS through boto3's default session.

        `tritonstack.client.light.LightRuntime()` as `runtime` costs less CPU per call.
        """
        self.request_facts = RequestFacts(
            endpoint=endpoint_name,
            target_model=target_model,
            target_variant=target_variant,
            inference_component=inference_component,
        )
        self._runtime = runtime if runtime is not None else self._default_runtime()
        self._async_runtime = self._runtime if isinstance(self._runtime, AsyncSageMakerRuntime) else None

    def __repr__(self) -> str:
        return f"EndpointClient({self.request_facts})"

    def infer(
        self,
        inputs: Mapping[str, Tensor],
        *,
        outputs: Sequence[str | TopClasses] | None = None,
        request_id: str = "",
        parameters: Mapping[str, Parameter] | None = None,
    ) -> dict[str, Array]:
        """Send `inputs` and return the outputs by name: all, or those named in `outputs`."""
        request = encode_request(inputs, outputs=outputs, request_id=request_id, parameters=parameters)
        body, content_type = self._send(request.body, request.content_type)
        return dict(decode_reply(body, content_type=content_type).outputs)

    def classify(
        self,
        inputs: Mapping[str, Tensor],
        *,
        output: str,
        count: int = 1,
        request_id: str = "",
        parameters: Mapping[str, Parameter] | None = None,
    ) -> list[list[ScoredClass]]:
        """Send `inputs` and return the `count` highest classes of `output` per row, with their labels."""
        top = TopClasses(output, count)
        answer = self.infer(inputs, outputs=[top], request_id=request_id, parameters=parameters)
        if output not in answer:
            raise MalformedReplyError(f"it has no output {output}")
        return parse_classes(answer[output])

    def generate(self, text: str, *, parameters: Mapping[str, Parameter] | None = None) -> str:
        """Complete `text` with a language model, and return the completion; `parameters` go to its engine."""
        question = {"text_input": text, "exclude_input_in_output": True, "parameters": dict(parameters or {})}
        body, _ = self._send(json.dumps(question).encode(), JSON_CONTENT_TYPE)
        try:
            answer: Any = json.loads(body)
        except ValueError as error:
            raise MalformedReplyError(f"invalid JSON ({error})") from error
        answered = answer.get("text_output") if isinstance(answer, dict) else None
        if not isinstance(answered, str):
            raise MalformedReplyError("text_output is missing")
        return answered

    async def ainfer(
        self,
        inputs: Mapping[str, Tensor],
        *,
        outputs: Sequence[str | TopClasses] | None = None,
        request_id: str = "",
        parameters: Mapping[str, Parameter] | None = None,
    ) -> dict[str, Array]:
        """Like `infer`, without blocking the event loop; with boto3, a thread waits for the response."""
        if self._async_runtime is None:
            return await asyncio.to_thread(
                self.infer, inputs, outputs=outputs, request_id=request_id, parameters=parameters
            )
        request = encode_request(inputs, outputs=outputs, request_id=request_id, parameters=parameters)
        try:
            reply = await self._async_runtime.ainvoke_endpoint(
                **self._call(request.body, request.content_type)
            )
            body = reply["Body"].read()
        except (ClientError, BotoCoreError) as raised:
            raise invocation_error(raised, request=self.request_facts) from raised
        return dict(decode_reply(body, content_type=reply.get("ContentType", "")).outputs)

    def _default_runtime(self) -> SageMakerRuntime:
        import boto3  # noqa: PLC0415  a program with its own transport never loads it

        try:
            runtime: SageMakerRuntime = boto3.client("sagemaker-runtime")
        except BotoCoreError as raised:
            raise invocation_error(raised, request=self.request_facts) from raised
        return runtime

    def _send(self, body: bytes, content_type: str) -> tuple[bytes, str]:
        try:
            reply = self._runtime.invoke_endpoint(**self._call(body, content_type))
            return reply["Body"].read(), reply.get("ContentType", "")
        except (ClientError, BotoCoreError) as raised:
            raise invocation_error(raised, request=self.request_facts) from raised

    def _call(self, body: bytes, content_type: str) -> dict[str, Any]:
        facts = self.request_facts
        fields = {
            "EndpointName": facts.endpoint,
            "TargetModel": facts.target_model,
            "TargetVariant": facts.target_variant,
            "InferenceComponentName": facts.inference_component,
        }
        addressing = {field: value for field, value in fields.items() if value is not None}
        return {"Body": body, "ContentType": content_type, **addressing}
