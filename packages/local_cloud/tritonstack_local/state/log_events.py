"""Store log events in a database: neither memory nor the saved state holds them."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tritonstack_local.state.folder import own_folder, write_error

MOST_BYTES = 64 << 20
"""Messages of a stream; beyond it, its oldest ones are removed."""
_REMOVED_SHARE = 16
"""Part of a full stream that is removed at once."""
_ROWS = 200
_LAST = 1 << 62
_ENCODING = "utf-8", "surrogatepass"
_SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT, timestamp INTEGER, ingestion_time INTEGER,
    message BLOB
);
CREATE INDEX IF NOT EXISTS streams ON events (stream, number);
PRAGMA incremental_vacuum;
"""
_READ = """
SELECT number, stream, timestamp, ingestion_time, message FROM events
WHERE stream IN (SELECT value FROM json_each(?)) AND number >= ? AND number < ? AND timestamp BETWEEN ? AND ?
ORDER BY number {order} LIMIT {rows}
"""

_log = logging.getLogger(__name__)


class StoredEvent(NamedTuple):
    """An event."""

    number: int
    """Its place in the order of arrival; numbers of removed events are not used again."""
    stream: str
    timestamp: int
    ingestion_time: int
    message: str


class LogEvents:
    """The events of all streams of a cloud. Thread-safe."""

    def __init__(self) -> None:
        self._folder = Path()
        self._lock = threading.RLock()
        self._sizes: dict[str, int] = {}
        self._open(":memory:")

    def use(self, folder: Path) -> None:
        """Use this folder from now on: a process has one cloud at a time."""
        self._folder = own_folder(folder)
        path = folder / "events.db"
        try:
            self._open(path)
        except sqlite3.DatabaseError as error:
            _log.warning("the log lines in %s are damaged, and removed: %s", path, error)
            for damaged in folder.glob(f"{path.name}*"):
                damaged.unlink()
            self._open(path)

    def _open(self, path: Path | str) -> None:
        with self._lock:
            self._sizes = {}
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._database.executescript(_SCHEMA)
            self.end = 1 + (self._one("SELECT max(seq) FROM sqlite_sequence") or 0)
            """The number of the next event."""

    def append(self, stream: str, events: Sequence[tuple[int, int, str]]) -> list[int]:
        """Add events, given as timestamp, ingestion time, and message; return their numbers."""
        rows = [
            (stream, timestamp, ingestion_time, message.encode(*_ENCODING))
            for timestamp, ingestion_time, message in events
        ]
        with self._lock:
            size = self.size(stream) + sum(len(row[-1]) for row in rows)
            numbers = list(range(self.end, self.end + len(rows)))
            try:
                with self._database:
                    self._database.execute("BEGIN")
                    self._database.executemany(
                        "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
                        [(number, *row) for number, row in zip(numbers, rows, strict=True)],
                    )
            except sqlite3.Error as error:
                raise write_error(self._folder, OSError(str(error))) from error
            self.end += len(rows)
            self._sizes[stream] = size
            if size > MOST_BYTES:
                self._trim(stream, size - MOST_BYTES + MOST_BYTES // _REMOVED_SHARE)
        return numbers

    def _trim(self, stream: str, excess: int) -> None:
        rows = self._database.execute(
            "SELECT number, length(message) FROM events WHERE stream = ? ORDER BY number", (stream,)
        )
        while excess > 0:
            number, size = rows.fetchone()
            excess -= size
        self._remove("stream = ? AND number <= ?", stream, number)

    def size(self, stream: str) -> int:
        """Return the bytes of a stream's messages."""
        with self._lock:
            if stream not in self._sizes:
                total = "SELECT sum(length(message)) FROM events WHERE stream = ?"
                self._sizes[stream] = self._one(total, stream) or 0
            return self._sizes[stream]

    def times(self, stream: str) -> tuple[int, int] | None:
        """Return the oldest and the newest timestamp; None if there is no event."""
        with self._lock:
            statement = "SELECT min(timestamp), max(timestamp) FROM events WHERE stream = ?"
            oldest, newest = self._database.execute(statement, (stream,)).fetchone()
        return None if oldest is None else (oldest, newest)

    def read(
        self,
        streams: Collection[str],
        *,
        start: int = 0,
        end: int = _LAST,
        oldest: int = 0,
        newest: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[StoredEvent]:
        """Yield the events in a range of numbers and timestamps, in the order of arrival or the other way."""
        statement = _READ.format(order="DESC" if newest_first else "ASC", rows=_ROWS)
        names, times = json.dumps([*streams]), (oldest, _LAST if newest is None else newest)
        while True:
            with self._lock:
                rows = self._database.execute(statement, (names, start, end, *times)).fetchall()
            for row in rows:
                yield StoredEvent._make((*row[:4], row[4].decode(*_ENCODING)))
            if len(rows) < _ROWS:
                return
            start, end = (start, rows[-1][0]) if newest_first else (rows[-1][0] + 1, end)

    def expire(self, stream: str, before: int) -> None:
        """Remove a stream's events that are older than a timestamp."""
        if before:
            self._remove("stream = ? AND timestamp < ?", stream, before)

    def forget(self, stream: str) -> None:
        """Remove all events of a stream."""
        self._remove("stream = ?", stream)

    def sweep(self, streams: Collection[str]) -> None:
        """Remove the events of other streams, left by a kill."""
        self._remove("stream NOT IN (SELECT value FROM json_each(?))", json.dumps([*streams]))

    def _remove(self, condition: str, *values: Any) -> None:
        with self._lock, suppress(sqlite3.Error):  # the next removal tries again
            self._sizes.pop(values[0], None)
            self._database.execute(f"DELETE FROM events WHERE {condition}", values)  # noqa: S608 - ours

    def _one(self, statement: str, *values: Any) -> Any:
        return self._database.execute(statement, values).fetchone()[0]


LOG_EVENTS = LogEvents()
"""Like moto's backends, it belongs to the process."""
