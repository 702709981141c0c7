"""Write a snapshot of all stores at rest: a few seconds after the last change, and when the cloud ends.

A kill loses the changes since the last snapshot. A snapshot waits for the changes in progress, so that it
never holds half of one: a resource that its stack does not know.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tritonstack_local.state.bodies import BODIES
from tritonstack_local.state.errors import NotKeptError
from tritonstack_local.state.snapshot import State, StateKey

REST_S = 2.0
"""Time without changes after which a snapshot is written."""
LONGEST_S = 20.0
"""Time after which it is written although changes go on."""
_SHARE = 10
"""Writing takes at most about a tenth of the time."""
_IDLE_S = 3600.0
_PATIENCE_S = 5.0
"""At the end, a change in progress is not waited for any longer."""

_log = logging.getLogger(__name__)
OnChange = Callable[[], None]


class Persistent(Protocol):
    """A store whose pieces are saved by key; it reports each change."""

    on_change: OnChange

    def piece_keys(self) -> list[str]:
        """List the keys of all pieces."""

    def dump(self, key: str) -> bytes | None:
        """Pickle a piece; None if it has just been deleted."""

    def load(self, key: str, value: Any) -> None:
        """Restore a piece from its unpickled value."""


def not_persisted() -> None:
    """Do nothing: there is no state writer."""


class StateWriter:
    """Thread-safe. Call `load` first, then `start`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._stores: dict[str, Persistent] = {}
        self._condition = threading.Condition()
        self._changing = 0
        self._writing = False
        self._first_change: float | None = None
        self._last_change = self._ended = self._cost = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="state-writer", daemon=True)

    def track(self, name: str, store: Persistent) -> None:
        """Persist a store under a name."""
        self._stores[name] = store
        store.on_change = self.changed

    def load(self) -> None:
        """Restore all stores from the saved state."""
        for piece, value in self._state.values.items():
            self._stores[piece.store].load(piece.key, value)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold off snapshots during a change, which may consist of others, in this thread or in more."""
        with self._condition:
            self._condition.wait_for(lambda: not self._writing)
            self._changing += 1
        try:
            yield
        finally:
            with self._condition:
                self._changing -= 1
                self._condition.notify_all()

    def changed(self) -> None:
        """Write a snapshot soon."""
        with self._condition:
            self._last_change = time.monotonic()
            if self._first_change is None:
                self._first_change = self._last_change
                self._condition.notify_all()

    def close(self) -> None:
        """Write the last snapshot."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self._condition:
                while not self._closing and self._until_due() > 0:
                    self._condition.wait(self._until_due())
                is_last = self._closing
                is_quiet = self._condition.wait_for(lambda: not self._changing, _PATIENCE_S)
                self._writing = is_quiet or is_last
                if self._writing:
                    self._first_change = None  # what changes from now on needs another snapshot
            if self._writing:
                self._write()

    def _until_due(self) -> float:
        if self._first_change is None:
            return _IDLE_S
        at_rest = min(self._last_change + REST_S, self._first_change + LONGEST_S)
        return max(at_rest, self._ended + _SHARE * self._cost) - time.monotonic()

    def _write(self) -> None:
        started = time.monotonic()
        try:
            try:
                bodies, pieces, is_whole = self._take()
                bodies -= BODIES.pickled
            finally:
                with self._condition:
                    self._writing = False
                    self._condition.notify_all()
            self._state.write(pieces)
            if is_whole:
                BODIES.remove(bodies)  # that no piece refers to
        except (NotKeptError, OSError) as error:
            _log.error("%s", error)
            self.changed()
        self._ended = time.monotonic()
        self._cost = self._ended - started

    def _take(self) -> tuple[set[str], dict[StateKey, bytes], bool]:
        """Return the files of bodies before, the state, and whether that is all of it."""
        BODIES.pickled.clear()
        bodies, is_whole = BODIES.names(), True
        pieces: dict[StateKey, bytes] = {}
        for name, store in self._stores.items():
            for key in store.piece_keys():
                try:
                    content = store.dump(key)
                except Exception:
                    # An error in one service must not prevent saving the others.
                    _log.exception("%s %s cannot be saved and will be lost when the cloud stops", name, key)
                    is_whole = False
                    continue
                if content is not None:
                    pieces[StateKey(name, key)] = content
        return bodies, pieces, is_whole
