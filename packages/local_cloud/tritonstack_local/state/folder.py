"""Open, check, and set aside the folder of a cloud's state."""

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
from tritonstack_local.state.database import Database, Row, own_folder, salvage
from tritonstack_local.state.errors import OtherVersionError, StateDamagedError
from tritonstack_local.state.pickling import loads

_log = logging.getLogger(__name__)

_FORMAT = 3
"""Increase it when classes in the state are moved or renamed: rows are pickles, which name their classes."""
_MOST_LISTED = 20


def stamp() -> str:
    """Return the versions that a state can be read by: pickles are made of the code that wrote them."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"tritonstack {version('tritonstack')} format {_FORMAT}, moto {version('moto')}, Python {python}"


@dataclass(frozen=True)
class State:
    """An open folder: a database, the bodies of S3's objects beside it, and what both of them told."""

    folder: Path
    database: Database
    bodies: BodyStore
    found: tuple[tuple[str, str, Any], ...] = ()
    """What was kept, by kind and key."""
    notices: tuple[str, ...] = ()
    """What the user should know of what was not taken in."""

    def room(self) -> int:
        """Return how many bytes there is room for."""
        return shutil.disk_usage(self.folder).free


def open_state(folder: Path) -> State:
    """Open a folder, or make it, with all of it that is whole; the notices name what is lost.

    What is damaged, or of another version, is kept beside it. errors.py says what else may be wrong.
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
            f"the state was written by another version ({other}) and left alone in {aside}: go back to that "
            f"version and call it {folder.name} again, or deploy anew; `tritonstack down --forget` removes it"
        )
    except StateDamagedError as damage:
        return _salvaged(folder, damage)
    _log.warning("%s", notice)
    return replace(_read(folder), notices=(notice,))


def _require_database(folder: Path) -> None:
    """Raise StateDamagedError for bodies without the database that says what they are."""
    file, bodies = folder / "cloud.db", folder / "objects"
    if not file.exists() and bodies.is_dir() and any(bodies.iterdir()):
        raise StateDamagedError(file, "the file is missing")


def _salvaged(folder: Path, damage: StateDamagedError) -> State:
    """Open what is whole of a damaged state; all of it stays in a copy."""
    aside = _copy_aside(folder)
    file = folder / "cloud.db"
    lost = salvage(file, stamp=stamp()) if file.exists() else [damage.fault]
    state = _read(folder)
    notice = _damaged(_listed(lost) or damage.fault, aside)
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
    database, bodies = Database(folder / "cloud.db", stamp=stamp()), BodyStore(folder / "objects")
    try:
        with bodies.used():
            found = [(row, *_value(row)) for row in database.rows()]
        bodies.find_lost()
    except Exception:
        database.close()
        raise
    notices = tuple(fault for _, _, fault in found if fault)
    if not notices:
        bodies.sweep()
    taken = tuple((row.kind, row.key, value) for row, value, fault in found if not fault)
    return State(folder, database, bodies, taken, notices)


def _value(row: Row) -> tuple[Any, str]:
    """Unpickle a row; what cannot be made again, though its bytes are those written, is left out and told."""
    try:
        return loads(row.value or b""), ""
    except OtherVersionError:
        raise
    except Exception as fault:
        _log.exception("%s %s", row.kind, row.key)
        return None, f"{row.kind} {row.key} does not come back: this cloud cannot keep it ({fault!r})"


def _set_aside(folder: Path) -> Path:
    return folder.rename(_place_aside(folder))


def _copy_aside(folder: Path) -> Path:
    """Copy a state: its database by content, its bodies, which are written once, by hard links."""
    aside = own_folder(_place_aside(folder))
    for part in folder.glob("cloud.db*"):
        shutil.copy2(part, aside / part.name)
    bodies = own_folder(aside / "objects")
    if (folder / "objects").is_dir():
        for body in (folder / "objects").iterdir():
            os.link(body, bodies / body.name)
    return aside


def _place_aside(folder: Path) -> Path:
    number = 1
    while (aside := folder.with_name(f"{folder.name}.set-aside-{number}")).exists():
        number += 1
    return aside
