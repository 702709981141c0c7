"""Record the answers of deployment steps, so that a step interrupted by a kill is not repeated.

A deployment creates resources by calls to this cloud and reads their ids from the responses. A kill between a
call and the record of its response would leak a resource. So the calls of a step carry its name, and their
responses are saved with their changes until the step is recorded. After a restart the step runs again: calls
answered before return the same response and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tritonstack_local.state.pickling import dumps
from tritonstack_local.state.writer import OnChange, not_persisted

HEADER = "X-Tritonstack-Step"
_step: ContextVar[str | None] = ContextVar("step", default=None)


@dataclass(frozen=True)
class RecordedCall:
    """A call that changed state, and its response."""

    operation: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class IdempotencyLog:
    """The recorded calls of steps in progress. One thread runs each step."""

    def __init__(self) -> None:
        self._given: dict[str, list[RecordedCall]] = {}
        self._from_before: dict[str, list[RecordedCall]] = {}
        self.on_change: OnChange = not_persisted

    def add(self, step: str, recorded: RecordedCall) -> None:
        """Record the response to a call of a step."""
        self._given.setdefault(step, []).append(recorded)
        self.on_change(step)

    def has_from_before(self, step: str) -> bool:
        """Return whether an interrupted step has recorded calls."""
        return step in self._from_before

    def from_before(self, step: str, operation: str) -> RecordedCall | None:
        """Return the recorded response of a step's next call; None if it was not answered before the kill."""
        left = self._from_before.get(step)
        return left.pop(0) if left and left[0].operation == operation else None

    def forget(self, step: str) -> None:
        """Delete the recorded calls of a finished step."""
        self._from_before.pop(step, None)
        if self._given.pop(step, None) is not None:
            self.on_change(step)

    def dump(self, key: str) -> bytes | None:
        """Pickle the recorded calls of a step."""
        given = self._given.get(key)
        return None if given is None else dumps(given)

    def load(self, key: str, value: list[RecordedCall]) -> None:
        """Restore the recorded calls of an interrupted step."""
        self._given[key], self._from_before[key] = value, list(value)


@contextmanager
def in_step(name: str) -> Iterator[None]:
    """Add a step's name to this thread's calls within the context."""
    token = _step.set(name)
    try:
        yield
    finally:
        _step.reset(token)


def name_step(request: Any, **_: Any) -> None:
    """Add the name of the step to a request that boto3 is about to sign."""
    name = _step.get()
    if name is not None:
        request.headers[HEADER] = name
