"""One process at a time: locks that end with the process that holds them, however it ends."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def do_not_tell() -> None:
    """For locks that are held for moments only."""


@contextmanager
def only_one(lock: Path, *, on_wait: Callable[[], None] = do_not_tell) -> Iterator[None]:
    """Hold the lock; `on_wait` is called if another process holds it and this one has to wait."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
