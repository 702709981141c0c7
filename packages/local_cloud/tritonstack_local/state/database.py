"""Store rows of bytes in one SQLite file, atomically and before the request is answered.

Every row has a digest, which detects damage. Rows depend on the versions that wrote them: the file has a
stamp with those versions, and files with another stamp are not read.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base.errors import TritonstackError
from tritonstack_local.state.errors import (
    ForeignStateError,
    NotKeptError,
    OtherVersionError,
    StateDamagedError,
    StateInUseError,
)

_PATIENCE_S = 1.0
_DISK_ERRORS = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
_HEADER = 100
_LARGEST = 2**40
"""Upper bound of the database size; a damaged header may claim more."""
_SCHEMA = (
    "CREATE TABLE stamp (text TEXT NOT NULL)",
    "CREATE TABLE row (kind TEXT, key TEXT, digest BLOB, value BLOB, PRIMARY KEY (kind, key))",
)


@dataclass(frozen=True)
class StoredRow:
    """A piece of state; without a value, it is to be removed."""

    kind: str
    key: str
    value: bytes | None


def own_folder(folder: Path) -> Path:
    """Create a folder that only its owner can use, or check that an existing one is such."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_owner(folder)
    return folder


def check_owner(path: Path) -> None:
    """Reject a path that another user owns or can write to."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise ForeignStateError(path, "it is a symbolic link")
    if found.st_uid != os.geteuid():
        raise ForeignStateError(path, f"its owner is user {found.st_uid}, not user {os.geteuid()}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ForeignStateError(path, "other users can write to it")


def salvage(file: Path, *, stamp: str) -> list[str]:
    """Replace a damaged file by one with all intact rows; return the lost rows as `<kind> <key>`.

    A row is intact if its digest matches.
    """
    whole: list[StoredRow] = []
    lost: list[str] = []
    _fill_up(file)
    try:
        with closing(sqlite3.connect(file, isolation_level=None, timeout=_PATIENCE_S)) as connection:
            found = connection.execute("SELECT text FROM stamp").fetchone()
            readable = _readable(connection) if found == (stamp,) else iter(())
            if found != (stamp,):
                lost.append(f"all of {file.name}: it is of another version")
            for row, is_whole in readable:
                if is_whole:
                    whole.append(row)
                else:
                    lost.append(f"{row.kind} {row.key}")
    except sqlite3.DatabaseError as error:
        if isinstance(state_error(file, error), StateInUseError | NotKeptError):
            raise state_error(file, error) from error
        lost.append(f"all of {file.name}: {error}")
    for part in file.parent.glob(f"{file.name}*"):
        part.unlink()
    database = Database(file, stamp=stamp)
    try:
        database.write(whole)
    finally:
        database.close()
    return lost


def _fill_up(file: Path) -> None:
    """Restore the length of a truncated file: SQLite reads no page of a file shorter than its header says."""
    with file.open("r+b") as stream:
        header = stream.read(_HEADER)
        if len(header) == _HEADER and header.startswith(b"SQLite format 3"):
            page = int.from_bytes(header[16:18]) or 1
            size = (page if page > 1 else 65_536) * int.from_bytes(header[28:32])
            if stream.seek(0, os.SEEK_END) < size < _LARGEST:
                stream.truncate(size)


def _readable(connection: sqlite3.Connection) -> Iterator[tuple[StoredRow, bool]]:
    """Yield the rows outside unreadable pages, and whether each is intact."""
    seen = set[int]()
    for order in ("ASC", "DESC"):
        # Each direction ends at the first page that cannot be read.
        with suppress(sqlite3.DatabaseError):
            for number, *held in connection.execute(f"SELECT rowid, * FROM row ORDER BY rowid {order}"):  # noqa: S608
                if number in seen:
                    return
                seen.add(number)
                yield _checked(*held)
    for number in range(min(seen, default=1), max(seen, default=0)):
        if number not in seen:
            with suppress(sqlite3.DatabaseError):
                for held in connection.execute("SELECT * FROM row WHERE rowid = ?", (number,)):
                    yield _checked(*held)


def _checked(kind: object, key: object, digest: object, value: object) -> tuple[StoredRow, bool]:
    content = value if isinstance(value, bytes) else b""
    return StoredRow(str(kind), str(key), content), digest == _digest(content)


class Database:
    """The database file. For one thread at a time; locked by one process."""

    def __init__(self, file: Path, *, stamp: str) -> None:
        self._file = file
        if not file.exists():
            _create(file, stamp)
        for part in file.parent.glob(f"{file.name}*"):
            check_owner(part)
        try:
            self._connection = sqlite3.connect(
                file, isolation_level=None, check_same_thread=False, timeout=_PATIENCE_S
            )
        except sqlite3.Error as error:
            raise state_error(file, error) from error
        try:
            _prepare(self._connection)
            self._check(stamp)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise state_error(file, error) from error
        except Exception:
            self._connection.close()
            raise

    def rows(self) -> Iterator[StoredRow]:
        """Yield all rows, or raise StateDamagedError."""
        try:
            for kind, key, digest, value in self._connection.execute("SELECT * FROM row ORDER BY kind, key"):
                if digest != _digest(value):
                    raise StateDamagedError(self._file, f"{kind} {key} does not match its digest")
                yield StoredRow(kind, key, value)
        except sqlite3.DatabaseError as error:
            raise state_error(self._file, error) from error

    def write(self, rows: Iterable[StoredRow]) -> None:
        """Write all rows, or raise NotKeptError and write none."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for row in rows:
                if row.value is None:
                    connection.execute("DELETE FROM row WHERE kind = ? AND key = ?", (row.kind, row.key))
                else:
                    values = (row.kind, row.key, _digest(row.value), row.value)
                    connection.execute("INSERT OR REPLACE INTO row VALUES (?, ?, ?, ?)", values)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise NotKeptError(self._file.parent, str(error)) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _check(self, stamp: str) -> None:
        failure = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if failure != "ok":
            raise StateDamagedError(self._file, str(failure))
        found = self._connection.execute("SELECT text FROM stamp").fetchone()
        if found is None or found[0] != stamp:
            raise OtherVersionError(found[0] if found else "no version")


def _create(file: Path, stamp: str) -> None:
    """Create the file under a temporary name first, so that the final one is always complete."""
    draft = file.with_suffix(".new")
    try:
        draft.unlink(missing_ok=True)
        connection = sqlite3.connect(draft, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise NotKeptError(file.parent, str(error)) from error
    try:
        _prepare(connection)
        connection.execute("BEGIN")
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO stamp VALUES (?)", (stamp,))
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise NotKeptError(file.parent, str(error)) from error
    finally:
        connection.close()
    draft.rename(file)


def _prepare(connection: sqlite3.Connection) -> None:
    # Locked until closed: no other process reads or writes, and SQLite needs no shared-memory file.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def state_error(file: Path, failure: sqlite3.Error) -> TritonstackError:
    """Return the error to raise: an I/O error of the disk is not damage of the state."""
    # The low byte of a code is the reason, the others are details; Python's own errors have no code.
    reason = getattr(failure, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if reason == sqlite3.SQLITE_BUSY:
        return StateInUseError(file)
    if reason in _DISK_ERRORS:
        return NotKeptError(file.parent, str(failure))
    return StateDamagedError(file, str(failure))


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=16).digest()
