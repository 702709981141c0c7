"""File locks that end with the process that holds them."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def ignore_wait() -> None:
    """Ignore the wait, for short-lived locks."""


@contextmanager
def only_one(lock: Path, *, on_wait: Callable[[], None] = ignore_wait) -> Iterator[None]:
    """Hold a lock; call `on_wait` if another process holds it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
