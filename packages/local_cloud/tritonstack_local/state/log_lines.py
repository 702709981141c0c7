"""Keep the lines of logs in a database beside the snapshot: neither memory nor a snapshot holds them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tritonstack_local.state.errors import NotKeptError, StateDamagedError
from tritonstack_local.state.folder import check_owner, own_folder

MOST_BYTES = 64 << 20
"""Of a stream's messages."""
END = (1 << 63) - 1
"""The largest number and timestamp."""
_BATCH = 100
_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS lines (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    stream INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    ingestion_time INTEGER NOT NULL,
    message BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS by_stream ON lines (stream);
CREATE INDEX IF NOT EXISTS by_time ON lines (stream, timestamp);
"""
# The plus sign keeps SQLite from the index by time, which has another order.
_SELECT = (
    "SELECT number, timestamp, ingestion_time, message FROM lines"
    " WHERE stream = ? AND +timestamp BETWEEN ? AND ? AND number"
)
_FORWARD = f"{_SELECT} >= ? ORDER BY number LIMIT {_BATCH}"
_BACKWARD = f"{_SELECT} < ? ORDER BY number DESC LIMIT {_BATCH}"
_SIZE = "SELECT coalesce(sum(length(message)), 0) FROM lines WHERE stream = ?"
_DELETE = "DELETE FROM lines WHERE stream = ?"
_OLDER, _EARLIER = " AND timestamp < ?", " AND number < ?"


class StoredLine(NamedTuple):
    """A line of a stream, which is named by an integer."""

    number: int
    """Lines of all streams are numbered in the order they arrived; no number is used again."""
    timestamp: int
    ingestion_time: int
    message: str


class LineStore:
    """The lines of all streams of a cloud. Thread-safe."""

    def __init__(self) -> None:
        self._folder = Path()
        self._lock = threading.RLock()
        self._sizes: dict[int, int] = {}
        self._database = _opened(":memory:")

    def use(self, folder: Path) -> None:
        """Use this folder from now on: a process has one cloud at a time. Without a cloud, memory is used."""
        file = own_folder(folder) / "lines.sqlite"
        if file.exists():
            check_owner(file)
        with self._lock:
            self._database.close()
            self._folder, self._sizes, self._database = folder, {}, _opened(str(file))

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._database.execute(sql, values).fetchall()

    @property
    def end(self) -> int:
        """The number of the next line."""
        rows = self._rows("SELECT seq FROM sqlite_sequence")
        return int(rows[0][0]) + 1 if rows else 1

    def count(self, stream: int) -> int:
        """Return the number of lines of a stream."""
        return int(self._rows("SELECT count(*) FROM lines WHERE stream = ?", stream)[0][0])

    def size(self, stream: int) -> int:
        """Return the bytes of a stream's messages."""
        with self._lock:
            if stream not in self._sizes:
                self._sizes[stream] = int(self._rows(_SIZE, stream)[0][0])
            return self._sizes[stream]

    def times(self, stream: int) -> tuple[int, int] | None:
        """Return the oldest and the newest timestamp; None if there is no line."""
        sql = "SELECT {}(timestamp) FROM lines WHERE stream = ?"
        oldest, newest = (self._rows(sql.format(edge), stream)[0][0] for edge in ("min", "max"))
        return None if oldest is None else (oldest, newest)

    def append(self, stream: int, lines: Sequence[tuple[int, int, str]]) -> list[int]:
        """Add lines, given as timestamp, ingestion time, and message; return their numbers."""
        values = [(stream, *line[:2], line[2].encode(errors="surrogatepass")) for line in lines]
        with self._lock:
            before = self.size(stream)
            try:
                with self._database as database:
                    numbers = [database.execute(_INSERT, value).lastrowid or 0 for value in values]
            except sqlite3.OperationalError as error:
                raise NotKeptError(self._folder, str(error)) from error
            self._sizes[stream] = before + sum(len(value[-1]) for value in values)
            while self.size(stream) > MOST_BYTES:
                (first,), (last,) = self._rows(_EDGES, stream, stream)
                self._remove(stream, _EARLIER, first + (last - first) // 16 + 1)
        return numbers

    def _remove(self, stream: int, condition: str, *limit: int) -> None:
        with self._lock, self._database as database:
            removed = self._rows(_SIZE + condition, stream, *limit)[0][0]
            database.execute(_DELETE + condition, (stream, *limit))
            self._sizes[stream] = self.size(stream) - removed

    def expire(self, stream: int, before: int) -> None:
        """Remove the lines that are older than a timestamp."""
        self._remove(stream, _OLDER, before)

    def forward(
        self, stream: int, start: int = 0, *, oldest: int = 0, newest: int | None = None
    ) -> Iterator[StoredLine]:
        """Yield the lines from a number on, within a range of timestamps."""
        while lines := self._batch(_FORWARD, stream, start, oldest, newest):
            yield from lines
            start = lines[-1].number + 1

    def backward(
        self, stream: int, end: int, *, oldest: int = 0, newest: int | None = None
    ) -> Iterator[StoredLine]:
        """Yield the lines before a number, newest first, within a range of timestamps."""
        while lines := self._batch(_BACKWARD, stream, end, oldest, newest):
            yield from lines
            end = lines[-1].number

    def _batch(self, sql: str, stream: int, place: int, oldest: int, newest: int | None) -> list[StoredLine]:
        """Read some lines; clients may send larger numbers than SQLite takes."""
        range_ = min(oldest, END), END if newest is None else min(newest, END)
        return [
            StoredLine(number, timestamp, ingested, message.decode(errors="surrogatepass"))
            for number, timestamp, ingested, message in self._rows(sql, stream, *range_, min(place, END))
        ]

    def forget(self, stream: int) -> None:
        """Remove the lines of a stream."""
        self._remove(stream, "")
        del self._sizes[stream]

    def sweep(self, streams: Collection[int]) -> None:
        """Remove the lines of other streams, left by a kill."""
        for (stream,) in self._rows("SELECT DISTINCT stream FROM lines"):
            if stream not in streams:
                self.forget(stream)


_INSERT = "INSERT INTO lines (stream, timestamp, ingestion_time, message) VALUES (?, ?, ?, ?)"
_EDGES = (
    "SELECT min(number) FROM lines WHERE stream = ? UNION ALL SELECT max(number) FROM lines WHERE stream = ?"
)


def _opened(file: str) -> sqlite3.Connection:
    database = sqlite3.connect(file, check_same_thread=False)
    try:
        database.executescript(_SCHEMA)
    except sqlite3.DatabaseError as error:
        database.close()
        raise StateDamagedError(f"{file} is unreadable: {error}") from error
    return database


LOG_LINES = LineStore()
"""Like moto's backends, it belongs to the process."""
