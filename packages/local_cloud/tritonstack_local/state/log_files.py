"""Store log events in files: a folder per stream, with segments to which lines are only ever appended.

Neither memory nor the saved state holds events. The number of an event is the place of its line in the
stream, and a segment is named after its first place, so that nothing is counted or indexed. Segments are
removed beyond the limit of their stream, and when nothing was written to them within the retention.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tritonstack_local.state.folder import own_folder, write_error

SEGMENT_BYTES = 4 << 20
MOST_SEGMENTS = 16
"""Of a stream: 64 MiB."""
_BLOCK_BYTES = 1 << 17


class StoredEvent(NamedTuple):
    """An event of a stream."""

    number: int
    """Its place in the stream; numbers of removed events are not used again."""
    end: int
    """The place after it."""
    timestamp: int
    ingestion_time: int
    message: str


class LogFiles:
    """The events of a stream, in the order they arrived. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def _segments(self) -> list[tuple[int, int, Path]]:
        """Return the first place, the size, and the file of each segment."""
        segments = []
        for path in sorted(self._folder.glob("*")):
            with suppress(FileNotFoundError):  # it has just been removed
                segments.append((int(path.name), path.stat().st_size, path))
        return segments

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept."""
        return next((place for place, _, _ in self._segments()), 0)

    @property
    def end(self) -> int:
        """The number of the next event."""
        return max((place + size for place, size, _ in self._segments()), default=0)

    @property
    def size(self) -> int:
        """Bytes of the events that are kept."""
        return sum(size for _, size, _ in self._segments())

    def times(self) -> tuple[int, int] | None:
        """Return the timestamps of the first and the last event; None if there is none."""
        first, last = next(self.forward(), None), next(self.backward(self.end), None)
        return None if first is None or last is None else (first.timestamp, last.timestamp)

    def append(self, events: Sequence[tuple[int, int, str]]) -> list[int]:
        """Add events, given as timestamp, ingestion time, and message; return their numbers."""
        lines = [f"{json.dumps(event)}\n".encode() for event in events]
        with self._lock:
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                segments = self._segments()
                place, size, path = segments[-1] if segments else (0, 0, self._path(0))
                size += self._write(path, b"".join(lines))
                if size >= SEGMENT_BYTES:
                    self._path(place + size).touch(mode=0o600)
                    for _, _, oldest in segments[: max(0, len(segments) + 1 - MOST_SEGMENTS)]:
                        oldest.unlink(missing_ok=True)
            except OSError as error:
                raise write_error(self._folder, error) from error
        numbers, number = [], place + size - sum(map(len, lines))
        for line in lines:
            numbers.append(number)
            number += len(line)
        return numbers

    def _path(self, place: int) -> Path:
        return self._folder / f"{place:015}"

    def _write(self, path: Path, data: bytes) -> int:
        """Append all of it or nothing; after a line that a kill interrupted, begin another one."""
        with path.open("a+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if file.read(1) not in (b"", b"\n"):
                data = b"\n" + data
            try:
                if file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                os.ftruncate(file.fileno(), size)
                raise
        return len(data)

    def expire(self, before: int) -> None:
        """Remove the segments that were last written to before a time, in milliseconds since 1970."""
        with self._lock:
            end = self.end
            for place, size, path in self._segments():
                if size and path.stat().st_mtime * 1000 < before:
                    if place + size == end:
                        self._path(end).touch(mode=0o600)  # later events continue its numbers
                    path.unlink(missing_ok=True)

    def forward(self, start: int = 0, *, oldest: int = 0, newest: int | None = None) -> Iterator[StoredEvent]:
        """Yield the events from a number on, within a range of timestamps."""
        for place, size, path in self._segments():
            if place + size > start:
                yield from self._read(place, path, max(0, start - place), oldest, newest)

    def backward(self, end: int, *, oldest: int = 0, newest: int | None = None) -> Iterator[StoredEvent]:
        """Yield the events before a number, newest first, within a range of timestamps."""
        for place, _, path in reversed(self._segments()):
            if place < end:
                events = list(self._read(place, path, 0, oldest, newest))
                yield from (event for event in reversed(events) if event.number < end)

    def _read(
        self, place: int, path: Path, offset: int, oldest: int, newest: int | None
    ) -> Iterator[StoredEvent]:
        """Read a segment in blocks: a search of many streams cannot keep all their files open."""
        begun = b""
        while block := _block(path, offset):
            number = place + offset - len(begun)
            offset += len(block)
            *lines, begun = (begun + block).split(b"\n")
            for line in lines:
                event = _event(number, line)
                number += len(line) + 1
                if event and event.timestamp >= oldest and (newest is None or event.timestamp <= newest):
                    yield event

    def remove(self) -> None:
        """Remove all events."""
        with self._lock:
            shutil.rmtree(self._folder, ignore_errors=True)


class LogFolder:
    """The folders of all streams of a cloud."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._streams: dict[str, LogFiles] = {}

    def use(self, folder: Path) -> None:
        """Use this folder from now on: a process has one cloud at a time."""
        self._folder, self._streams = own_folder(folder), {}

    def files_of(self, name: str) -> LogFiles:
        """Return the events of a stream; without a cloud, they are temporary."""
        if self._folder is None:
            self.use(Path(tempfile.mkdtemp()))
        return self._streams.setdefault(name, LogFiles((self._folder or Path()) / name))

    def forget(self, name: str) -> None:
        """Remove the events of a stream."""
        self.files_of(name).remove()
        del self._streams[name]

    def sweep(self, names: Collection[str]) -> None:
        """Remove folders of other streams, left by a kill."""
        for path in self._folder.iterdir() if self._folder is not None else ():
            if path.name not in names:
                shutil.rmtree(path, ignore_errors=True)


LOG_FOLDER = LogFolder()
"""Like moto's backends, it belongs to the process."""


def _block(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(_BLOCK_BYTES)
    except FileNotFoundError:  # it has just been removed
        return b""


def _event(number: int, line: bytes) -> StoredEvent | None:
    """Return the event of a line; None if a kill, or a damaged disk or file, left something else there."""
    try:
        timestamp, ingestion_time, message = json.loads(line)
        return StoredEvent(number, number + len(line) + 1, int(timestamp), int(ingestion_time), str(message))
    except (ValueError, TypeError, RecursionError):
        return None
