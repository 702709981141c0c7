"""Read and write the cloud's state as one file, replaced atomically.

It consists of pieces, which are pickled one by one. Pickles depend on the code that wrote them: the file
begins with its versions, and others are not read.
"""

from __future__ import annotations

import logging
import os
import pickle
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tritonstack_local.state.bodies import BODIES
from tritonstack_local.state.errors import OtherVersionError, StateDamagedError, write_error
from tritonstack_local.state.folder import check_owner, own_folder, set_aside
from tritonstack_local.state.log_files import LOG_FOLDER

_log = logging.getLogger(__name__)

_FORMAT = 8
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
