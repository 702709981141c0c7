"""Read and write the cloud's state as one file, replaced atomically; the file before it is kept.

It consists of pieces, which are pickled one by one, and the names of the S3 object bodies that they refer to.
Pickles depend on the code that wrote them: the file begins with its versions, and others are not read.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tritonstack_local.state.bodies import BODIES
from tritonstack_local.state.errors import OtherVersionError, StateDamagedError, write_error
from tritonstack_local.state.folder import check_owner, own_folder, set_aside
from tritonstack_local.state.log_files import LOG_FOLDER
from tritonstack_local.state.pickling import loads

_log = logging.getLogger(__name__)

_FORMAT = 7
"""Increase this when classes in the state move or are renamed."""


class StateKey(NamedTuple):
    """What a store saves by itself: a record, a stack, or a backend of moto."""

    store: str
    key: str


@dataclass(frozen=True)
class Snapshot:
    """The state at one moment."""

    pieces: Mapping[StateKey, bytes] = field(default_factory=dict)
    bodies: frozenset[str] = frozenset()
    """The files of S3 objects that the pieces refer to."""


@dataclass(frozen=True)
class State:
    """The folder of a cloud's state, and what was read from it."""

    folder: Path
    values: Mapping[StateKey, Any] = field(default_factory=dict)
    bodies: frozenset[str] = frozenset()
    """The files that the snapshots on disk refer to."""
    notices: tuple[str, ...] = ()
    """Messages about what was not restored."""

    @property
    def _file(self) -> Path:
        return self.folder / "snapshot"

    @property
    def _previous(self) -> Path:
        return self.folder / "snapshot.previous"

    def write(self, snapshot: Snapshot) -> None:
        """Replace the snapshot, or raise NotKeptError and change nothing."""
        draft = self.folder / "snapshot.new"
        content = pickle.dumps((dict(snapshot.pieces), snapshot.bodies), protocol=5)
        try:
            with draft.open("wb") as file:
                file.writelines((_header(stamp(), content), content))
                file.flush()
                os.fsync(file.fileno())
            if self._file.exists():
                self._previous.unlink(missing_ok=True)
                os.link(self._file, self._previous)
            draft.replace(self._file)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise write_error(self.folder, error) from error

    def read(self) -> State:
        """Read the snapshot; the previous one if it is damaged, with a message."""
        damages = []
        for file in (self._file, self._previous):
            try:
                snapshot = _read(file)
            except FileNotFoundError:
                continue
            except StateDamagedError as damage:
                damages.append(str(damage))
                continue
            return self._restored(snapshot, file, damages)
        if damages:
            raise StateDamagedError(" ".join(damages))
        if (self.folder / "cloud.db").exists():
            raise OtherVersionError("it has a database")
        if any((self.folder / "objects").iterdir()):
            raise StateDamagedError(f"{self._file.name} is missing")
        return self

    def _restored(self, snapshot: Snapshot, file: Path, damages: list[str]) -> State:
        notices = []
        if damages:
            written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
            notices.append(
                f"the last snapshot of the state is damaged ({damages[0]}); restored the one before it, of "
                f"{written:%Y-%m-%d %H:%M:%S} UTC. The damaged file is {set_aside(self._file)}"
            )
        values = {}
        for piece, content in snapshot.pieces.items():
            try:
                values[piece] = loads(content)
            except OtherVersionError:
                raise
            except Exception as error:
                _log.exception("%s %s", *piece)
                notices.append(f"{piece.store} {piece.key} was not restored: it is unreadable ({error!r})")
        bodies = snapshot.bodies
        if file == self._file:
            with suppress(OSError, StateDamagedError, OtherVersionError):
                bodies |= _read(self._previous).bodies
        return State(self.folder, values, bodies, tuple(notices))


def stamp() -> str:
    """Return the versions that a snapshot depends on: pickles refer to the code that wrote them."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"tritonstack {version('tritonstack')} format {_FORMAT}, moto {version('moto')}, Python {python}"


def open_state(folder: Path) -> State:
    """Open or create a folder; state that cannot be read is set aside, and the notices say so."""
    try:
        state = _opened(folder).read()
    except OtherVersionError as other:
        aside = set_aside(folder)
        state = _opened(
            folder,
            f"the state was written by another version ({other}) and moved to {aside}: to use it, return to "
            f"that version and rename it to {folder.name}; `tritonstack down --forget` removes it",
        )
    except StateDamagedError as damage:
        aside = set_aside(folder)
        state = _opened(
            folder,
            f"the state is damaged ({damage}); the cloud starts empty. The damaged state is in "
            f"{aside}: `tritonstack down --forget` removes it",
        )
    for notice in state.notices:
        _log.warning("%s", notice)
    if not state.notices:
        BODIES.sweep(state.bodies)
    return state


def _opened(folder: Path, *notices: str) -> State:
    own_folder(folder)
    LOG_FOLDER.use(folder / "logs")
    BODIES.use(folder / "objects")
    return State(folder, notices=notices)


def _header(versions: str, content: bytes) -> bytes:
    digest = hashlib.blake2b(versions.encode() + b"\n" + content, digest_size=16)
    return f"{versions}\n{digest.hexdigest()}\n".encode()


def _read(file: Path) -> Snapshot:
    check_owner(file)
    with file.open("rb") as stream:
        versions, digest, content = stream.readline(), stream.readline(), stream.read()
    text = versions.decode(errors="replace").rstrip("\n")
    if versions + digest != _header(text, content):
        raise StateDamagedError(f"{file.name} does not match its digest")
    if text != stamp():
        raise OtherVersionError(text)
    return Snapshot(*pickle.loads(content))  # noqa: S301 - of this user, and whole
