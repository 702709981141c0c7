"""Calls one Triton endpoint through SageMaker's InvokeEndpoint, synchronously or from asyncio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from botocore.eventstream import ParserError
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from tritonstack.client.classification import ScoredClass, TopClasses, parse_classes
from tritonstack.client.codec import JSON_CONTENT_TYPE, Array, Parameter, Tensor, decode_reply, encode_request
from tritonstack.client.errors import (
    MalformedReplyError,
    ModelNamesError,
    NoResponseError,
    RequestEncodingError,
    RequestFacts,
    ServiceErrorDetails,
    StreamFailedError,
    TargetNotFoundError,
)
from tritonstack.client.failures import broken_stream, invocation_error
from tritonstack.client.model_names import ModelNames
from tritonstack.client.streaming import read_responses, text_of

TEXT_IN = "text_input"


class SageMakerRuntime(Protocol):
    """The operations of boto3's `sagemaker-runtime` client that EndpointClient uses."""

    def invoke_endpoint(self, **kwargs: Any) -> Mapping[str, Any]:
        """Send one request to an endpoint."""

    def invoke_endpoint_with_response_stream(self, **kwargs: Any) -> Mapping[str, Any]:
        """Send one request to an endpoint, and return its response while it arrives."""


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
        models: ModelNames | None = None,
    ) -> None:
        """Create a client; without `runtime` it calls AWS through boto3's default session.

        `tritonstack.client.light.LightRuntime()` as `runtime` costs less CPU per call. With `models`,
        `target_model` may be the name of a model instead of a TargetModel.
        """
        self.request_facts = RequestFacts(
            endpoint=endpoint_name,
            target_model=target_model,
            target_variant=target_variant,
            inference_component=inference_component,
        )
        self._models = models
        self._named = models is not None and target_model is not None and is_model_name(target_model)
        self._runtime = runtime if runtime is not None else self._default_runtime()
        self._async_runtime = self._runtime if isinstance(self._runtime, AsyncSageMakerRuntime) else None

    def __repr__(self) -> str:
        return f"EndpointClient({self.request_facts})"

    def with_model(self, target_model: str) -> EndpointClient:
        """Return a client of another model on the same endpoint, with the same connections and names."""
        facts = self.request_facts
        return EndpointClient(
            endpoint_name=facts.endpoint,
            runtime=self._runtime,
            target_model=target_model,
            target_variant=facts.target_variant,
            inference_component=facts.inference_component,
            models=self._models,
        )

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

    async def ainfer(
        self,
        inputs: Mapping[str, Tensor],
        *,
        outputs: Sequence[str | TopClasses] | None = None,
        request_id: str = "",
        parameters: Mapping[str, Parameter] | None = None,
    ) -> dict[str, Array]:
        """Like `infer`, without blocking the event loop; with boto3, a thread waits for the response."""
        request = encode_request(inputs, outputs=outputs, request_id=request_id, parameters=parameters)
        body, content_type = await self._asend(request.body, request.content_type)
        return dict(decode_reply(body, content_type=content_type).outputs)

    def classify(
        self,
        inputs: Mapping[str, Tensor],
        *,
        output: str = "scores",
        count: int = 1,
        request_id: str = "",
        parameters: Mapping[str, Parameter] | None = None,
    ) -> list[list[ScoredClass]]:
        """Send `inputs` and return the `count` highest classes of `output` per row, with their labels."""
        top = [TopClasses(output, count)]
        return _classes(output, self.infer(inputs, outputs=top, request_id=request_id, parameters=parameters))

    async def aclassify(
        self,
        inputs: Mapping[str, Tensor],
        *,
        output: str = "scores",
        count: int = 1,
        request_id: str = "",
        parameters: Mapping[str, Parameter] | None = None,
    ) -> list[list[ScoredClass]]:
        """Like `classify`, without blocking the event loop."""
        top = [TopClasses(output, count)]
        answer = await self.ainfer(inputs, outputs=top, request_id=request_id, parameters=parameters)
        return _classes(output, answer)

    def labels(
        self,
        inputs: Mapping[str, Tensor],
        *,
        output: str = "scores",
        parameters: Mapping[str, Parameter] | None = None,
    ) -> list[str]:
        """Send `inputs` and return the best label of each row, such as "positive"."""
        return _labels(self.classify(inputs, output=output, parameters=parameters))

    async def alabels(
        self,
        inputs: Mapping[str, Tensor],
        *,
        output: str = "scores",
        parameters: Mapping[str, Parameter] | None = None,
    ) -> list[str]:
        """Like `labels`, without blocking the event loop."""
        return _labels(await self.aclassify(inputs, output=output, parameters=parameters))

    def generate(self, text: str, *, parameters: Mapping[str, Parameter] | None = None) -> str:
        """Complete `text` with a language model, and return the completion; `parameters` go to its engine."""
        body, content_type = self._send(question_body(text, parameters), JSON_CONTENT_TYPE)
        return self._completion(body, content_type)

    async def agenerate(self, text: str, *, parameters: Mapping[str, Parameter] | None = None) -> str:
        """Like `generate`, without blocking the event loop."""
        body, content_type = await self._asend(question_body(text, parameters), JSON_CONTENT_TYPE)
        return self._completion(body, content_type)

    def stream(self, text: str, *, parameters: Mapping[str, Parameter] | None = None) -> Iterator[str]:
        """Complete `text` with a language model, and yield the completion piece by piece as it is written.

        The connection ends with the loop over the pieces: the model stops if the caller leaves it early.
        Raises NoResponseError if the model sends none.
        """
        for response in self.stream_responses(
            {TEXT_IN: text, "exclude_input_in_output": True},
            parameters={"stream": True, **(parameters or {})},
        ):
            yield text_of(response)

    def stream_responses(
        self, inputs: Mapping[str, Any], *, parameters: Mapping[str, Parameter] | None = None
    ) -> Iterator[Mapping[str, Any]]:
        """Send `inputs` to a decoupled model, and yield each response when it arrives.

        Inputs and responses have the JSON form of Triton's generate extension: tensors by name, with one
        number or text for a tensor of one element, and a flat list for any other. Raises NoResponseError if
        the model sends none.
        """
        if self.request_facts.target_model is not None:
            raise RequestEncodingError(
                f"cannot stream from the model {self.request_facts.target_model!r} of a multi-model endpoint",
                remedy="call a single-model endpoint; SageMaker streams no responses of multi-model ones",
            )
        body = _json({**inputs, "parameters": dict(parameters or {})})
        try:
            call = call_of(self.request_facts, body, JSON_CONTENT_TYPE)
            reply = self._runtime.invoke_endpoint_with_response_stream(**call)
            with closing(reply["Body"]) as events:
                parts = (event.get("PayloadPart", {}).get("Bytes", b"") for event in events)
                yield from self._checked(read_responses(parts, content_type=reply.get("ContentType", "")))
        except (ClientError, BotoCoreError) as raised:
            raise invocation_error(raised, request=self.request_facts) from raised
        except (HTTPError, ParserError) as raised:  # botocore passes them on once a response has begun
            raise broken_stream(raised, request=self.request_facts) from raised

    def _checked(self, responses: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield responses; raise if there is none, or if one reports an error of the model."""
        answered = False
        for response in responses:
            if "error" in response:
                service = ServiceErrorDetails(code="ModelError", message=str(response["error"]))
                raise StreamFailedError(request=self.request_facts, service=service)
            answered = True
            yield response
        if not answered:
            service = ServiceErrorDetails(code="ModelError", message="the answer ended without an event")
            raise NoResponseError(request=self.request_facts, service=service)

    def _completion(self, body: bytes, content_type: str) -> str:
        return "".join(map(text_of, self._checked(read_responses([body], content_type=content_type))))

    def _default_runtime(self) -> SageMakerRuntime:
        import boto3  # noqa: PLC0415  a program with its own transport never loads it

        try:
            runtime: SageMakerRuntime = boto3.client("sagemaker-runtime")
        except BotoCoreError as raised:
            raise invocation_error(raised, request=self.request_facts) from raised
        return runtime

    def _send(self, body: bytes, content_type: str) -> tuple[bytes, str]:
        facts = self._addressed()
        try:
            return self._invoke(facts, body, content_type)
        except TargetNotFoundError as error:
            facts = self._readdressed(facts, error)
        return self._invoke(facts, body, content_type)

    def _invoke(self, facts: RequestFacts, body: bytes, content_type: str) -> tuple[bytes, str]:
        try:
            reply = self._runtime.invoke_endpoint(**call_of(facts, body, content_type))
            return reply["Body"].read(), reply.get("ContentType", "")
        except (ClientError, BotoCoreError) as raised:
            raise invocation_error(raised, request=facts) from raised

    async def _asend(self, body: bytes, content_type: str) -> tuple[bytes, str]:
        if self._async_runtime is None:
            return await asyncio.to_thread(self._send, body, content_type)
        facts = await self._aaddressed()
        try:
            return await self._ainvoke(self._async_runtime, facts, body, content_type)
        except TargetNotFoundError as error:
            facts = await asyncio.to_thread(self._readdressed, facts, error)
        return await self._ainvoke(self._async_runtime, facts, body, content_type)

    async def _ainvoke(
        self, runtime: AsyncSageMakerRuntime, facts: RequestFacts, body: bytes, content_type: str
    ) -> tuple[bytes, str]:
        try:
            reply = await runtime.ainvoke_endpoint(**call_of(facts, body, content_type))
            return reply["Body"].read(), reply.get("ContentType", "")
        except (ClientError, BotoCoreError) as raised:
            raise invocation_error(raised, request=facts) from raised

    def _addressed(self) -> RequestFacts:
        """Return the address of a request, with the TargetModel of the model's name."""
        facts = self.request_facts
        if not self._named or self._models is None or facts.target_model is None:
            return facts
        return replace(facts, target_model=self._models.target(facts.target_model))

    async def _aaddressed(self) -> RequestFacts:
        name, models = self.request_facts.target_model, self._models
        if not self._named or (models is not None and models.is_current and name in models.known()):
            return self._addressed()
        return await asyncio.to_thread(self._addressed)  # this reads the names

    def _readdressed(self, used: RequestFacts, error: TargetNotFoundError) -> RequestFacts:
        """Return the address after another read of the names; raise `error` if it is the same."""
        if self._models is None:
            raise error
        try:
            names = self._models.refresh()
        except ModelNamesError:  # what the endpoint answered says more
            raise error from None
        facts = self._addressed()
        if facts == used:
            raise TargetNotFoundError(request=used, service=error.service, known=names) from error
        return facts


def is_model_name(target_model: str) -> bool:
    """Return whether a target is the name of a model, and not the path of an archive."""
    return "/" not in target_model and "." not in target_model


def _classes(output: str, answer: Mapping[str, Array]) -> list[list[ScoredClass]]:
    if output not in answer:
        raise MalformedReplyError(f"it has no output {output}")
    return parse_classes(answer[output])


def _labels(classes: list[list[ScoredClass]]) -> list[str]:
    best = [row[0] for row in classes]
    for scored in best:
        if not scored.label:
            raise MalformedReplyError(
                f"class {scored.index} has no label; add `labels` to the model's output"
            )
    return [scored.label for scored in best]


def question_body(text: str, parameters: Mapping[str, Parameter] | None) -> bytes:
    """Return the body that asks a language model to complete a text."""
    question = {TEXT_IN: text, "exclude_input_in_output": True, "parameters": dict(parameters or {})}
    return _json(question)


def _json(content: Mapping[str, Any]) -> bytes:
    """Return a request in the form of Triton's generate extension."""
    try:
        return json.dumps(content, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise RequestEncodingError(
            f"cannot encode the request: {error}",
            remedy="use texts, finite numbers, and lists of them; array.ravel().tolist() makes one",
        ) from error


def call_of(facts: RequestFacts, body: bytes, content_type: str) -> dict[str, Any]:
    """Return boto3's parameters of InvokeEndpoint."""
    fields = {
        "EndpointName": facts.endpoint,
        "TargetModel": facts.target_model,
        "TargetVariant": facts.target_variant,
        "InferenceComponentName": facts.inference_component,
    }
    addressing = {field: value for field, value in fields.items() if value is not None}
    return {"Body": body, "ContentType": content_type, **addressing}
