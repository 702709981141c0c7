"""Many clients that invoke an endpoint repeatedly, and record the outcome of each request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError


@dataclass(frozen=True)
class Outcome:
    """One request: when it ran, by the monotonic clock, and its answer or its error's code."""

    began: float
    ended: float
    answer: Any = None
    error: str | None = None


@dataclass
class Crowd:
    """The outcomes of its clients so far."""

    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.error is not None]

    def slowest_s(self) -> float:
        return max(outcome.ended - outcome.began for outcome in self.outcomes)


@contextmanager
def asking(ask: Callable[[], Any], *, clients: int, pause_s: float) -> Iterator[Crowd]:
    """Run so many clients, each with a pause after an answer, until the block ends."""
    crowd, stop = Crowd(), threading.Event()

    def client(number: int) -> None:
        stop.wait(pause_s * number / clients)
        while not stop.is_set():
            crowd.outcomes.append(_asked(ask))
            stop.wait(pause_s)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield crowd
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _asked(ask: Callable[[], Any]) -> Outcome:
    began = time.monotonic()
    try:
        return Outcome(began, answer=ask(), ended=time.monotonic())
    except ClientError as error:
        return Outcome(began, error=error.response["Error"]["Code"], ended=time.monotonic())
