"""Write a snapshot of all stores at rest: a few seconds after the last change, and when the cloud ends.

A kill loses the changes since the last snapshot. A snapshot waits for the changes in progress, so that it
never holds half of one: a resource that its stack does not know.
"""

from __future__ import annotations

import logging
import os
import pickle
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tritonstack_local.state.bodies import BODIES
from tritonstack_local.state.folder import (
    NotKeptError,
    OtherVersionError,
    StateDamagedError,
    check_owner,
    own_folder,
    set_aside,
    write_error,
)
from tritonstack_local.state.log_files import LOG_FOLDER

# The snapshot consists of pieces, pickled one by one. Pickles depend on the code that wrote them: the file
# begins with its versions, and others are not read.


_log = logging.getLogger(__name__)

_FORMAT = 11
"""Increase this when classes in the state change, move, or are renamed."""


class StateKey(NamedTuple):
    """What a store saves by itself: a record, a stack, or a backend of moto."""

    store: str
    key: str


@dataclass(frozen=True)
class State:
    """The folder of a cloud's state, and what was read from it."""

    folder: Path
    values: Mapping[StateKey, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    """Messages about what was not restored."""

    def write(self, pieces: Mapping[StateKey, bytes]) -> None:
        """Replace the snapshot, or raise NotKeptError and change nothing."""
        draft = self.folder / "snapshot.new"
        try:
            with draft.open("wb") as file:
                file.write(f"{stamp()}\n".encode())
                pickle.dump(dict(pieces), file, protocol=5)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.folder / "snapshot")
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise write_error(self.folder, error) from error


def stamp() -> str:
    """Return the versions that a snapshot depends on: pickles refer to the code that wrote them."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"tritonstack {version('tritonstack')} format {_FORMAT}, moto {version('moto')}, Python {python}"


def open_state(folder: Path) -> State:
    """Open or create a folder; state that cannot be read is set aside, and a notice says so."""
    _use(folder)
    try:
        return State(folder, _read(folder))
    except OtherVersionError as other:
        aside = set_aside(folder)
        notice = (
            f"the state was written by another version ({other}) and moved to {aside}: to use it, return to "
            f"that version and rename it to {folder.name}; `tritonstack down --forget` removes it"
        )
    except StateDamagedError as damage:
        aside = set_aside(folder)
        notice = (
            f"the state is damaged ({damage}); the cloud starts empty. The damaged state is in "
            f"{aside}: `tritonstack down --forget` removes it"
        )
    _log.warning("%s", notice)
    _use(folder)
    return State(folder, notices=(notice,))


def _use(folder: Path) -> None:
    own_folder(folder)
    LOG_FOLDER.use(folder / "logs")
    BODIES.use(folder / "objects")


def _read(folder: Path) -> dict[StateKey, Any]:
    file = folder / "snapshot"
    if not file.exists():
        if any((folder / "objects").iterdir()):
            raise StateDamagedError(f"{file.name} is missing")
        return {}
    check_owner(file)
    with file.open("rb") as stream:
        versions = stream.readline().decode(errors="replace").rstrip("\n")
        if versions != stamp():
            raise OtherVersionError(versions)
        try:
            pieces = pickle.load(stream)  # noqa: S301 - of this user
            return {key: pickle.loads(content) for key, content in pieces.items()}  # noqa: S301 - as above
        except Exception as error:
            raise StateDamagedError(f"{file.name} is unreadable: {error!r}") from error


REST_S = 2.0
"""Time without changes after which a snapshot is written."""
LONGEST_S = 20.0
"""Time after which it is written although changes go on."""
_SHARE = 25
"""Writing takes at most about a 25th of the time: deployments of many stacks cost linear time."""
_IDLE_S = 3600.0
_PATIENCE_S = 5.0
"""At the end, a change in progress is not waited for any longer."""

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
