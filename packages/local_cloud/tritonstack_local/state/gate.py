"""Lets many change things side by side, or one look at them while nothing changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Whoever wants to look goes first: those who come to change things wait until it has looked."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._changing = 0
        self._looking = 0

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change things, beside others who do. Not to be entered twice by one thread."""
        with self._condition:
            self._condition.wait_for(lambda: not self._looking)
            self._changing += 1
        try:
            yield
        finally:
            with self._condition:
                self._changing -= 1
                self._condition.notify_all()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look while nobody changes anything. One thread at a time does."""
        with self._condition:
            self._looking += 1
            self._condition.wait_for(lambda: not self._changing)
        try:
            yield
        finally:
            with self._condition:
                self._looking -= 1
                self._condition.notify_all()
