"""Send requests from one event loop: an open loop follows a schedule, a closed loop waits for each answer.

An open loop counts the latency of a request from the time when it was due. A generator that waited for slow
answers before it sends more would hide exactly the delays that users see (coordinated omission).
"""

from __future__ import annotations

import asyncio
import random
import select
import selectors
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
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
from tritonstack_sizing.loads.arrivals import Offsets

Send = Callable[[int], Awaitable[str]]
"""Sends the request with a number; returns "" for an answer of the model, or the class of the error."""
MAX_OPEN = 2_000
"""Requests in progress at most; the wait of further ones counts as latency."""


@dataclass
class Sent:
    """When each request was due, sent, and answered, in seconds since the start; one list item each."""

    due: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """The class of the error, "" for an answer."""
    processor_s: float = 0.0
    """The processor time of this process during the load."""

    def note(self, due: float, sent: float, ended: float, error: str) -> None:
        """Add a request."""
        self.due.append(due)
        self.sent.append(sent)
        self.ended.append(ended)
        self.errors.append(error)


async def open_loop(send: Send, offsets: Offsets, *, on_second: Callable[[int], None] | None = None) -> Sent:
    """Send each request at its offset, and report the second it was due; return when all are answered."""
    record, slots = Sent(), asyncio.Semaphore(MAX_OPEN)
    clock = _Clock()

    async def request(number: int, due: float) -> None:
        sent = clock.now()
        try:
            error = await send(number)
        finally:
            slots.release()
        record.note(due, sent, clock.now(), error)

    async with asyncio.TaskGroup() as tasks:
        for number, due in enumerate(offsets.tolist()):
            if (wait_s := due - clock.now()) > 0:
                await asyncio.sleep(wait_s)
            await slots.acquire()
            tasks.create_task(request(number, due))
            if on_second is not None:
                on_second(int(due))
    record.processor_s = clock.processor_s()
    return record


async def closed_loop(
    send: Send, *, users: int, seconds: float, on_second: Callable[[int], None] | None = None
) -> Sent:
    """Let each of many users send a request as soon as the previous one is answered."""
    record = Sent()
    clock = _Clock()
    numbers = iter(range(sys.maxsize))

    async def user(delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        while (sent := clock.now()) < seconds:
            error = await send(next(numbers))
            record.note(sent, sent, clock.now(), error)
            if error:  # do not flood a server that rejects at once
                await asyncio.sleep(random.uniform(0.05, 0.15))  # noqa: S311 - no secret
            if on_second is not None:
                on_second(int(clock.now()))

    spread_s = min(1.0, seconds / 10)
    async with asyncio.TaskGroup() as tasks:
        for number in range(users):
            tasks.create_task(user(spread_s * number / users))
    record.processor_s = clock.processor_s()
    return record


def run_loop(main: Coroutine[Any, Any, Sent]) -> Sent:
    """Run a load on an event loop that wakes within microseconds."""
    with asyncio.Runner(loop_factory=_precise_loop) as runner:
        return runner.run(main)


class _Clock:
    """The time and the processor time since its creation."""

    def __init__(self) -> None:
        self._start_s, self._processor_start_s = time.perf_counter(), time.process_time()

    def now(self) -> float:
        return time.perf_counter() - self._start_s

    def processor_s(self) -> float:
        return time.process_time() - self._processor_start_s


def _precise_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop whose waits are precise; epoll rounds them up to milliseconds."""
    if not hasattr(selectors, "EpollSelector"):
        return asyncio.new_event_loop()

    class PreciseSelector(selectors.EpollSelector):
        """Waits for epoll's file descriptor with select, which counts microseconds."""

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is None or timeout > 0:
                select.select([self.fileno()], [], [], timeout)
            return super().select(0)

    return asyncio.SelectorEventLoop(PreciseSelector())


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
