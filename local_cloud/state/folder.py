"""The folder of a cloud's state: opened, checked, set aside."""

from __future__ import annotations

import logging
import platform
import shutil
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from local_cloud.state.bodies import Bodies
from local_cloud.state.database import Database, Row, own_folder
from local_cloud.state.errors import OtherVersionError
from local_cloud.state.pickling import loads

_log = logging.getLogger(__name__)

_FORMAT = 2


def stamp() -> str:
    """Name the versions that a state can be read by: pickles are made of the code that wrote them."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"tritonstack {version('tritonstack')} format {_FORMAT}, moto {version('moto')}, Python {python}"


@dataclass(frozen=True)
class State:
    """An open folder: a database, the bodies of S3's objects beside it, and what both of them told."""

    folder: Path
    database: Database
    bodies: Bodies
    found: tuple[tuple[str, str, Any], ...] = ()
    """What was kept, by kind and key."""
    notices: tuple[str, ...] = ()
    """What the user should know of what was not taken in."""

    def room(self) -> int:
        """How many bytes there is room for."""
        return shutil.disk_usage(self.folder).free


def open_state(folder: Path) -> State:
    """Open a folder, or make it; set a state of another version aside. errors.py says what may be wrong."""
    try:
        return _read(folder)
    except OtherVersionError as other:
        aside = _set_aside(folder)
        notice = (
            f"the state was written by another version ({other}) and left alone in {aside}: go back to that "
            f"version and call it {folder.name} again, or deploy anew; `tritonstack down --forget` removes it"
        )
        _log.warning("%s", notice)
        return replace(_read(folder), notices=(notice,))


def _read(folder: Path) -> State:
    own_folder(folder)
    database, bodies = Database(folder / "cloud.db", stamp=stamp()), Bodies(folder / "objects")
    try:
        with bodies.used():
            found = [(row, *_value(row)) for row in database.rows()]
        bodies.check()
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
    number = 1
    while (aside := folder.with_name(f"{folder.name}.set-aside-{number}")).exists():
        number += 1
    return folder.rename(aside)
