"""Prepared requests to one endpoint, and the class of each answer."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ReadTimeoutError

from tritonstack.base.files import parse_json
from tritonstack.base.http import HttpReply
from tritonstack.client.client import call_of
from tritonstack.client.codec import encode_request
from tritonstack.client.errors import NoResponseError, RequestFacts, StreamFailedError
from tritonstack.client.light import LightRuntime
from tritonstack.client.streaming import EVENTS
from tritonstack.operate.shared.aws import Cloud
from tritonstack_sizing.loads.sending import MAX_OPEN

_ORDER_SEED = 7
_TIMEOUT = "timeout"


@dataclass(frozen=True)
class PreparedRequest:
    """The body of a request."""

    body: bytes
    content_type: str

    @classmethod
    def of(
        cls, inputs: Mapping[str, np.ndarray[Any, Any]], parameters: Mapping[str, Any] | None = None
    ) -> PreparedRequest:
        """Return a request in Triton's binary form."""
        encoded = encode_request(inputs, parameters=parameters or {})
        return cls(bytes(encoded.body), encoded.content_type)


class LoadSender:
    """Sends prepared requests in a random order that is the same in every run."""

    def __init__(
        self, cloud: Cloud, facts: RequestFacts, requests: Sequence[PreparedRequest], *, timeout_s: float
    ) -> None:
        config = Config(connect_timeout=10, read_timeout=timeout_s, max_pool_connections=MAX_OPEN)
        self._runtime = LightRuntime(
            session=cloud.session,
            region_name=cloud.region,
            endpoint_url=cloud.variables.get("AWS_ENDPOINT_URL"),
            config=config,
        )
        self._calls = [call_of(facts, request.body, request.content_type) for request in requests]
        self._order = list(range(len(requests)))
        random.Random(_ORDER_SEED).shuffle(self._order)  # noqa: S311 - no secret

    async def send(self, number: int) -> str:
        """Send the request with a number; return "" or the class of the error."""
        return await self._send(self._calls[self._order[number % len(self._order)]])

    async def send_in_order(self, number: int) -> str:
        """Send the requests one after the other, as they were captured."""
        return await self._send(self._calls[number])

    async def _send(self, call: Mapping[str, Any]) -> str:
        try:
            reply = await self._runtime.aexchange(**call)
        except ReadTimeoutError:
            return _TIMEOUT
        except BotoCoreError as error:
            return type(error).__name__
        return error_class(reply)

    async def close(self) -> None:
        """Close all connections."""
        await self._runtime.aclose()
        self._runtime.close()


def error_class(reply: HttpReply) -> str:
    """Return the class of a reply that is not an answer of the model, such as `ModelError 503`; else ""."""
    if reply.status == 200:
        is_series = reply.headers.get("content-type", "").startswith(EVENTS)
        return _failure_of(reply.body) if is_series else ""
    name = reply.headers.get("x-amzn-errortype", "").partition(":")[0] or f"HTTP {reply.status}"
    try:
        content = parse_json(reply.body)
        original = content.get("OriginalStatusCode") if isinstance(content, dict) else None
    except ValueError:
        original = None
    return name if original is None else f"{name} {original}"


def _failure_of(body: bytes) -> str:
    """Return the class of the error that a series of responses ends with; "" if it has responses only."""
    responses = [line for line in body.splitlines() if line.startswith(b"data:")]
    if not responses:
        return NoResponseError.__name__
    is_error = responses[-1].removeprefix(b"data:").lstrip().startswith(b'{"error"')
    return StreamFailedError.__name__ if is_error else ""
