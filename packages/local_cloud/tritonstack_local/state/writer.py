"""Write changed state to disk, and report when it is durable.

Services report changes as they make them. One thread writes; changes during a write go into the next one, so
that many requests share one write. A request is answered when its changes are written;
slow changes (resources that moto creates by itself) are written within half a second, and no request waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from tritonstack_local.state.database import StoredRow
from tritonstack_local.state.errors import NotKeptError
from tritonstack_local.state.folder import State


class ReadWriteLock:
    """Readers take precedence: new changes wait until the reader is done."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._changing = 0
        self._looking = 0

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Make changes, in parallel with others. Not reentrant."""
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
        """Hold off changes while one thread reads."""
        with self._condition:
            self._looking += 1
            self._condition.wait_for(lambda: not self._changing)
        try:
            yield
        finally:
            with self._condition:
                self._looking -= 1
                self._condition.notify_all()


SLOW_S = 0.5
"""Longest delay of slow changes; a kill can lose as much."""
_SHARE = 10
"""Large pieces wait longer: slow changes take at most a tenth of the time."""
_RETRY_S = 1.0
_IDLE_S = 3600.0

_log = logging.getLogger(__name__)


class Persistent(Protocol):
    """A store whose pieces are written by key; it reports each change to the state writer."""

    def dump(self, key: str) -> bytes | None:
        """Return a piece as bytes; None if it was deleted."""

    def load(self, key: str, value: Any) -> None:
        """Restore a piece; `value` is the unpickled value."""


class OnChange(Protocol):
    """Reports a changed piece to the state writer."""

    def __call__(self, key: str, *, slow: bool = False) -> None:
        """Tell of it."""


def not_persisted(key: str, *, slow: bool = False) -> None:
    """Do nothing: there is no state writer."""


class _Piece(NamedTuple):
    kind: str
    key: str


class StateWriter:
    """Thread-safe. Call `load` first, then `start`."""

    def __init__(self, state: State) -> None:
        self.gate = ReadWriteLock()
        """Lock for changes of several pieces that must be written together."""
        self._state = state
        self._kept: dict[str, Persistent] = {}
        self._condition = threading.Condition()
        self._changed: dict[_Piece, None] = {}
        self._slowly_changed: dict[_Piece, float] = {}
        self._costs: dict[_Piece, float] = {}
        self._told = self._written = self._failed = 0
        self._failure: NotKeptError | None = None
        self._unremoved: list[str] = []
        self._unkept: set[_Piece] = set()
        """Pieces that could not be written; their older rows may refer to unused bodies."""
        self._closing = self._closed = False
        self._collecting = threading.local()
        self._thread = threading.Thread(target=self._run, name="state-writer", daemon=True)

    def track(self, kind: str, kept: Persistent) -> OnChange:
        """Persist a store under a name; return the function that reports its changes."""
        self._kept[kind] = kept

        def on_change(key: str, *, slow: bool = False) -> None:
            self._note([(_Piece(kind, key), slow)])

        return on_change

    def load(self) -> list[str]:
        """Restore all stores from the saved state; return messages about pieces that do not fit."""
        notices = []
        for kind, key, value in self._state.found:
            try:
                self._kept[kind].load(key, value)
            except Exception as error:
                _log.exception("%s %s", kind, key)
                notices.append(f"{kind} {key} was not restored ({error!r})")
        return notices

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Collect this thread's changes and write them at once at the end."""
        collected: list[tuple[_Piece, bool]] = []
        self._collecting.pieces = collected
        try:
            yield
        finally:
            self._collecting.pieces = None
            self._note(collected)

    def settle(self) -> None:
        """Wait until all reported changes are written; raise NotKeptError if they cannot be."""
        with self._condition:
            goal = self._told
            self._condition.wait_for(lambda: self._written >= goal or self._failed >= goal or self._closed)
            if self._written < goal:
                raise self._failure or NotKeptError(self._state.folder, "the local cloud is stopping")

    def close(self) -> None:
        """Write pending changes and close the folder."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._state.database.close()

    def _note(self, pieces: list[tuple[_Piece, bool]]) -> None:
        collected = getattr(self._collecting, "pieces", None)
        if collected is not None:
            collected.extend(pieces)
            return
        with self._condition:
            for piece, slow in pieces:
                if slow:
                    wait = max(SLOW_S, _SHARE * self._costs.get(piece, 0.0))
                    self._slowly_changed.setdefault(piece, time.monotonic() + wait)
                else:
                    self._changed[piece] = None
                    self._told += 1
            if pieces:
                self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._closing and not self._changed and self._until_due() > 0:
                    self._condition.wait(self._until_due())
                closing = self._closing
            kept = self._write(everything=closing)
            if closing:
                return
            if not kept:
                with self._condition:
                    self._condition.wait_for(lambda: self._told > self._failed or self._closing, _RETRY_S)

    def _until_due(self) -> float:
        return min(self._slowly_changed.values(), default=time.monotonic() + _IDLE_S) - time.monotonic()

    def _write(self, *, everything: bool) -> bool:
        with self.gate.looking():
            pieces, versions = self._taken(everything=everything)
            rows = [row for row in map(self._row, pieces) if row is not None]
            unused = self._unremoved + self._state.bodies.unused()
        try:
            self._state.database.write(rows)
        except NotKeptError as error:
            with self._condition:
                if self._failure is None:
                    _log.error("%s", error)
                self._changed = dict.fromkeys(pieces) | self._changed
                self._unremoved = unused
                self._failed, self._failure = versions, error
                self._condition.notify_all()
            return False
        if not self._unkept:
            self._state.bodies.remove(unused)
            unused = []
        with self._condition:
            self._written, self._failure, self._unremoved = versions, None, unused
            self._condition.notify_all()
        return True

    def _taken(self, *, everything: bool) -> tuple[list[_Piece], int]:
        with self._condition:
            now = time.monotonic()
            due = [piece for piece, when in self._slowly_changed.items() if everything or when <= now]
            pieces = list(dict.fromkeys([*self._changed, *due]))
            for piece in pieces:
                self._slowly_changed.pop(piece, None)
            self._changed = {}
            return pieces, self._told

    def _row(self, piece: _Piece) -> StoredRow | None:
        started = time.monotonic()
        try:
            value = self._kept[piece.kind].dump(piece.key)
        except Exception:
            # An error in one service must not prevent saving the others.
            _log.exception("%s %s cannot be saved and will be lost when the cloud stops", *piece)
            self._unkept.add(piece)
            return None
        self._unkept.discard(piece)
        if value is None:
            self._costs.pop(piece, None)
        else:
            self._costs[piece] = time.monotonic() - started
        return StoredRow(piece.kind, piece.key, value)
