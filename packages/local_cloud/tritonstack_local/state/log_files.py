"""Store log events in files: a folder per stream, with segments to which lines are only ever appended.

Neither memory nor the saved state holds events, so a line costs the same whatever is already there. A full
segment is renamed to what it holds (first number, count, times, bytes); only the last one is read when a
stream is opened. Segments are removed beyond the limit of their stream, and when all their events have
expired.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
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
    timestamp: int
    ingestion_time: int
    message: str


@dataclass(frozen=True)
class _Segment:
    first: int
    count: int = 0
    oldest: int = 0
    newest: int = 0
    size: int = 0

    @property
    def end(self) -> int:
        return self.first + self.count

    @property
    def name(self) -> str:
        """Of the file once it is full."""
        return "-".join(map(str, (f"{self.first:015}", self.count, self.oldest, self.newest, self.size)))

    def plus(self, events: Sequence[StoredEvent], size: int) -> _Segment:
        times = [event.timestamp for event in events]
        oldest = min([self.oldest, *times] if self.count else times)
        newest = max([self.newest, *times] if self.count else times)
        return replace(
            self, count=self.count + len(events), oldest=oldest, newest=newest, size=self.size + size
        )


class LogFiles:
    """The events of a stream, in the order they arrived. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._known: list[_Segment] | None = None

    @property
    def _segments(self) -> list[_Segment]:
        """All segments; the last one is not full. A reader must not list them while another thread writes."""
        with self._lock:
            if self._known is None:
                self._known = self._listed()
            return self._known

    def _listed(self) -> list[_Segment]:
        names = sorted(path.name for path in self._folder.glob("*-*"))
        full = [_Segment(*map(int, name.split("-"))) for name in names]
        last = sorted(path.name for path in self._folder.glob("[0-9]*") if "-" not in path.name)[-1:]
        first = int(last[0]) if last else full[-1].end if full else 0
        return [*full, self._recovered(_Segment(first))]

    def _recovered(self, segment: _Segment) -> _Segment:
        """Count the events of the last segment; an event that a kill interrupted is removed."""
        path = self._path(segment)
        if not path.exists():
            return segment
        with path.open("rb+") as file:
            for number, line in enumerate(file, start=segment.first):
                if not line.endswith(b"\n"):
                    file.truncate(segment.size)
                    break
                event = _event(number, line)
                if event is not None:
                    segment = segment.plus([event], len(line))
                else:  # its number stays in use
                    segment = replace(segment, count=segment.count + 1, size=segment.size + len(line))
        return segment

    def _path(self, segment: _Segment) -> Path:
        is_last = self._known is None or segment is self._known[-1]
        return self._folder / (f"{segment.first:015}" if is_last else segment.name)

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept."""
        return self._segments[0].first

    @property
    def end(self) -> int:
        """The number of the next event."""
        return self._segments[-1].end

    @property
    def size(self) -> int:
        """Bytes of the events that are kept."""
        return sum(segment.size for segment in self._segments)

    def times(self) -> tuple[int, int] | None:
        """Return the oldest and the newest timestamp; None if there is no event."""
        held = [segment for segment in self._segments if segment.count]
        if not held:
            return None
        return min(segment.oldest for segment in held), max(segment.newest for segment in held)

    def append(self, events: Sequence[tuple[int, int, str]]) -> list[StoredEvent]:
        """Add events, given as timestamp, ingestion time, and message; return them with their numbers."""
        with self._lock:
            added = []
            try:
                if self._path(self._segments[-1]).stat().st_size != self._segments[-1].size:
                    self._known = None
                    self._known = self._listed()
            except FileNotFoundError:
                pass  # the first event makes it
            except OSError as error:
                raise write_error(self._folder, error) from error
            for start in range(0, len(events), 1000):
                numbered = enumerate(events[start : start + 1000], start=self.end)
                added += self._append([StoredEvent(number, *event) for number, event in numbered])
            return added

    def _append(self, events: list[StoredEvent]) -> list[StoredEvent]:
        last = self._segments[-1]
        data = b"".join(f"{json.dumps(event[1:])}\n".encode() for event in events)
        path = self._path(last)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("ab", buffering=0) as file:
                before = file.tell()
                try:
                    if file.write(data) != len(data):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                except OSError:
                    os.ftruncate(file.fileno(), before)
                    raise
        except OSError as error:
            raise write_error(self._folder, error) from error
        self._segments[-1] = last.plus(events, len(data))
        if self._segments[-1].size >= SEGMENT_BYTES:
            self._rotate()
        return events

    def _rotate(self) -> None:
        full = self._segments[-1]
        self._path(full).rename(self._folder / full.name)
        self._segments.append(_Segment(full.end))
        while len(self._segments) > MOST_SEGMENTS:
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        self._path(self._segments[0]).unlink(missing_ok=True)
        del self._segments[0]

    def expire(self, before: int) -> None:
        """Remove the segments whose events are all older than a timestamp."""
        with self._lock:
            while len(self._segments) > 1 and self._segments[0].newest < before:
                self._remove_oldest()
            last = self._segments[0]
            if len(self._segments) == 1 and last.count and last.newest < before:
                self._path(last).unlink(missing_ok=True)
                self._segments[:] = [_Segment(last.end)]
                self._path(self._segments[0]).touch(mode=0o600)  # later events continue its numbers

    def forward(self, start: int = 0, *, oldest: int = 0, newest: int | None = None) -> Iterator[StoredEvent]:
        """Yield the events from a number on, within a range of timestamps."""
        for segment in list(self._segments):
            if segment.end > start and _meets(segment, oldest, newest):
                yield from (event for event in self._read(segment, oldest, newest) if event.number >= start)

    def backward(self, end: int, *, oldest: int = 0, newest: int | None = None) -> Iterator[StoredEvent]:
        """Yield the events before a number, newest first, within a range of timestamps."""
        for segment in reversed(list(self._segments)):
            if segment.first < end and _meets(segment, oldest, newest):
                events = list(self._read(segment, oldest, newest))
                yield from (event for event in reversed(events) if event.number < end)

    def _read(self, segment: _Segment, oldest: int, newest: int | None) -> Iterator[StoredEvent]:
        """Read a segment line by line, up to its size at the beginning."""
        number, begun, offset = segment.first, b"", 0
        while number < segment.end and (block := self._block(segment, offset)):
            offset += len(block)
            *lines, begun = (begun + block).split(b"\n")
            for line in lines[: segment.end - number]:
                event = _event(number, line)
                number += 1
                if event and event.timestamp >= oldest and (newest is None or event.timestamp <= newest):
                    yield event

    def _block(self, segment: _Segment, offset: int) -> bytes:
        """Read a part of a segment; a search of many streams cannot keep all their files open."""
        with self._lock:
            # Since it was listed, the segment may have been filled or removed.
            current = next((known for known in self._segments if known.first == segment.first), None)
            if current is None:
                return b""
            with self._path(current).open("rb") as file:
                file.seek(offset)
                return file.read(_BLOCK_BYTES)

    def remove(self) -> None:
        """Remove all events."""
        with self._lock:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._segments[:] = [_Segment(self.end)]


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


def _event(number: int, line: bytes) -> StoredEvent | None:
    """Return the event of a line; None if a damaged disk or file left something else there."""
    try:
        timestamp, ingestion_time, message = json.loads(line)
        return StoredEvent(number, int(timestamp), int(ingestion_time), str(message))
    except (ValueError, TypeError, RecursionError):
        return None


def _meets(segment: _Segment, oldest: int, newest: int | None) -> bool:
    return segment.count > 0 and segment.newest >= oldest and (newest is None or segment.oldest <= newest)
