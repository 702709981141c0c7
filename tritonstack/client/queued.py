"""Send requests to an asynchronous endpoint: upload, InvokeEndpointAsync, and wait for the stored answer.

    client = QueuedEndpointClient(
        endpoint_name="tritonstack-dev-nightly",
        input_prefix="s3://<data bucket>/requests/tritonstack-dev-nightly/",
    )
    vectors = client.infer({"TEXT": np.array([["a sentence"]])}, timeout_s=900)["embedding"]

The prefix is the output InputPrefix of the endpoint's stack. The bucket's lifecycle rules delete requests and
answers.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack.client.classification import TopClasses
from tritonstack.client.codec import (
    BINARY_CONTENT_TYPE,
    Array,
    Parameter,
    Tensor,
    content_type_for,
    decode_reply,
    encode_request,
)
from tritonstack.client.errors import MalformedReplyError, QueuedRequestError, RequestFacts
from tritonstack.client.failures import invocation_error

_LONGEST_SHOWN = 500
_MISSING = frozenset({"404", "NoSuchKey"})


@dataclass(frozen=True)
class QueuedInference:
    """A request that the endpoint has accepted, and where SageMaker stores its answer or failure."""

    output_location: str
    failure_location: str | None


@dataclass(frozen=True, kw_only=True)
class QueuedEndpointClient:
    """Infers on one asynchronous endpoint. Threads may share it, as they may share boto3's clients."""

    endpoint_name: str
    input_prefix: str
    """s3://<bucket>/<prefix>/ for requests, which callers may write and the endpoint's role may read."""
    runtime: Any = None
    """boto3's `sagemaker-runtime` client (default: that of the default session)."""
    s3: Any = None
    pause_s: float = 2.0
    """Time between two looks for an answer."""
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def infer(
        self,
        inputs: Mapping[str, Tensor],
        *,
        outputs: Sequence[str | TopClasses] | None = None,
        parameters: Mapping[str, Parameter] | None = None,
        timeout_s: float = 900.0,
    ) -> dict[str, Array]:
        """Send `inputs`, wait for the answer, and return the outputs by name."""
        queued = self.submit(inputs, outputs=outputs, parameters=parameters)
        return self.wait(queued, timeout_s=timeout_s)

    async def ainfer(
        self,
        inputs: Mapping[str, Tensor],
        *,
        outputs: Sequence[str | TopClasses] | None = None,
        parameters: Mapping[str, Parameter] | None = None,
        timeout_s: float = 900.0,
    ) -> dict[str, Array]:
        """Like `infer`, in a thread."""
        return await asyncio.to_thread(
            self.infer, inputs, outputs=outputs, parameters=parameters, timeout_s=timeout_s
        )

    def submit(
        self,
        inputs: Mapping[str, Tensor],
        *,
        outputs: Sequence[str | TopClasses] | None = None,
        parameters: Mapping[str, Parameter] | None = None,
    ) -> QueuedInference:
        """Upload a request and queue it."""
        request = encode_request(inputs, outputs=outputs, parameters=parameters)
        bucket, prefix = _bucket_and_key(self.input_prefix)
        key = f"{prefix.rstrip('/')}/{uuid.uuid4()}"
        try:
            self._s3.put_object(Bucket=bucket, Key=key, Body=request.body, ContentType=request.content_type)
            accepted = self._runtime.invoke_endpoint_async(
                EndpointName=self.endpoint_name,
                InputLocation=f"s3://{bucket}/{key}",
                ContentType=request.content_type,
            )
        except (ClientError, BotoCoreError) as raised:
            raise invocation_error(raised, request=RequestFacts(self.endpoint_name)) from raised
        return QueuedInference(accepted["OutputLocation"], accepted.get("FailureLocation"))

    def wait(self, queued: QueuedInference, *, timeout_s: float = 900.0) -> dict[str, Array]:
        """Return the outputs of a queued request; raise QueuedRequestError if it failed or takes longer."""
        until = self.clock() + timeout_s
        while True:
            outputs = self.poll(queued)
            if outputs is not None:
                return outputs
            if self.clock() >= until:
                raise QueuedRequestError(
                    f"endpoint {self.endpoint_name}: no answer at {queued.output_location} within "
                    f"{timeout_s:.0f} s",
                    remedy="check the endpoint's queue and instance count: it may have no instance yet",
                )
            self.sleep(self.pause_s)

    def poll(self, queued: QueuedInference) -> dict[str, Array] | None:
        """Return the outputs, or None while there are none; raise QueuedRequestError on a failure."""
        try:
            answer = self._find(queued.output_location)
            failed = self._find(queued.failure_location) if answer is None else None
        except (ClientError, BotoCoreError) as raised:
            raise invocation_error(raised, request=RequestFacts(self.endpoint_name)) from raised
        if failed is not None:
            raise QueuedRequestError(
                f"endpoint {self.endpoint_name}: {failed[0].decode(errors='replace')[:_LONGEST_SHOWN]}",
                remedy="see the container's messages in the endpoint's log group",
            )
        if answer is None:
            return None
        body, content_type = answer
        return dict(decode_reply(body, content_type=_content_type(body, content_type)).outputs)

    @cached_property
    def _runtime(self) -> Any:
        return self.runtime or _default_client("sagemaker-runtime")

    @cached_property
    def _s3(self) -> Any:
        return self.s3 or _default_client("s3")

    def _find(self, url: str | None) -> tuple[bytes, str] | None:
        if url is None:
            return None
        bucket, key = _bucket_and_key(url)
        try:
            answer = self._s3.get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if aws_error_code(error) in _MISSING:
                return None
            raise
        return answer["Body"].read(), answer.get("ContentType", "")


def _default_client(service: str) -> Any:
    import boto3  # noqa: PLC0415  a program with its own clients never loads it

    return boto3.client(service)


def _bucket_and_key(url: str) -> tuple[str, str]:
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def _content_type(body: bytes, stored: str) -> str:
    """Return the content type of an answer; if unknown, the length of its JSON header."""
    if stored.startswith(BINARY_CONTENT_TYPE):
        return stored
    try:
        # In Latin-1, one character is one byte, so the header length is in bytes.
        _, size = json.JSONDecoder().raw_decode(body.decode("latin-1"))
    except (ValueError, RecursionError) as error:
        raise MalformedReplyError(f"it does not start with JSON ({error})") from error
    return content_type_for(size)
