"""Open and check the folder of a cloud's state; move unreadable state aside."""

from __future__ import annotations

import logging
import os
import platform
import shutil
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tritonstack_local.state.bodies import BodyStore
from tritonstack_local.state.database import Database, StoredRow, own_folder, salvage
from tritonstack_local.state.errors import OtherVersionError, StateDamagedError
from tritonstack_local.state.log_files import LOG_FOLDER
from tritonstack_local.state.pickling import loads

_log = logging.getLogger(__name__)

_FORMAT = 5
"""Increase this when classes in the state move or are renamed: rows are pickles with class names."""
_MOST_LISTED = 20


def stamp() -> str:
    """Return the versions that a state depends on: pickles refer to the code that wrote them."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"tritonstack {version('tritonstack')} format {_FORMAT}, moto {version('moto')}, Python {python}"


@dataclass(frozen=True)
class State:
    """An open folder: the database, the bodies of S3 objects, and what was read from both."""

    folder: Path
    database: Database
    bodies: BodyStore
    found: tuple[tuple[str, str, Any], ...] = ()
    """The saved pieces, by kind and key."""
    notices: tuple[str, ...] = ()
    """Messages about pieces that were not restored."""

    def room(self) -> int:
        """Return the free disk space in bytes."""
        return shutil.disk_usage(self.folder).free


def open_state(folder: Path) -> State:
    """Open or create a folder, with all intact state; the notices list what is lost.

    Damaged state, and state of another version, is kept next to it. For other errors see errors.py.
    """
    try:
        _require_database(folder)
        state = _read(folder)
        if not state.bodies.lost:
            return state
        state.database.close()
        aside = _copy_aside(folder)
        return replace(
            _read(folder),
            notices=(*state.notices, _damaged(f"the bodies of {len(state.bodies.lost)} objects", aside)),
        )
    except OtherVersionError as other:
        aside = _set_aside(folder)
        notice = (
            f"the state was written by another version ({other}) and moved to {aside}: to use it, return to "
            f"that version and rename it to {folder.name}; `tritonstack down --forget` removes it"
        )
    except StateDamagedError as damage:
        return _salvaged(folder, damage)
    _log.warning("%s", notice)
    return replace(_read(folder), notices=(notice,))


def _require_database(folder: Path) -> None:
    """Raise StateDamagedError if there are bodies but no database."""
    file, bodies = folder / "cloud.db", folder / "objects"
    if not file.exists() and bodies.is_dir() and any(bodies.iterdir()):
        raise StateDamagedError(file, "the file is missing")


def _salvaged(folder: Path, damage: StateDamagedError) -> State:
    """Open the intact part of a damaged state; keep a copy of all of it."""
    aside = _copy_aside(folder)
    file = folder / "cloud.db"
    lost = salvage(file, stamp=stamp()) if file.exists() else [damage.failure]
    state = _read(folder)
    notice = _damaged(_listed(lost) or damage.failure, aside)
    return replace(state, notices=(notice, *state.notices))


def _listed(lost: list[str]) -> str:
    more = len(lost) - _MOST_LISTED
    return ", ".join(lost[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _damaged(lost: str, aside: Path) -> str:
    notice = (
        f"the state is damaged; lost: {lost}; everything else was kept. A copy of the damaged state is in "
        f"{aside}: `tritonstack down --forget` removes it"
    )
    _log.warning("%s", notice)
    return notice


def _read(folder: Path) -> State:
    own_folder(folder)
    LOG_FOLDER.use(folder / "logs")
    database, bodies = Database(folder / "cloud.db", stamp=stamp()), BodyStore(folder / "objects")
    try:
        with bodies.used():
            found = [(row, *_value(row)) for row in database.rows()]
        bodies.find_lost()
    except Exception:
        database.close()
        raise
    notices = tuple(failure for _, _, failure in found if failure)
    if not notices:
        bodies.sweep()
    taken = tuple((row.kind, row.key, value) for row, value, failure in found if not failure)
    return State(folder, database, bodies, taken, notices)


def _value(row: StoredRow) -> tuple[Any, str]:
    """Unpickle a row; return its value, or a message if it cannot be unpickled."""
    try:
        return loads(row.value or b""), ""
    except OtherVersionError:
        raise
    except Exception as error:
        _log.exception("%s %s", row.kind, row.key)
        return None, f"{row.kind} {row.key} was not restored: the saved value is unreadable ({error!r})"


def _set_aside(folder: Path) -> Path:
    return folder.rename(_place_aside(folder))


def _copy_aside(folder: Path) -> Path:
    """Copy a state: its database by content, bodies and lines of logs, which never change, by hard links."""
    aside = own_folder(_place_aside(folder))
    for part in folder.glob("cloud.db*"):
        shutil.copy2(part, aside / part.name)
    bodies = own_folder(aside / "objects")
    if (folder / "objects").is_dir():
        for body in (folder / "objects").iterdir():
            os.link(body, bodies / body.name)
    if (folder / "logs").is_dir():
        shutil.copytree(folder / "logs", aside / "logs", copy_function=os.link)
    return aside


def _place_aside(folder: Path) -> Path:
    number = 1
    while (aside := folder.with_name(f"{folder.name}.set-aside-{number}")).exists():
        number += 1
    return aside
