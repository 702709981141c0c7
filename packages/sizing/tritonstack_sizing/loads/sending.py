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
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

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
