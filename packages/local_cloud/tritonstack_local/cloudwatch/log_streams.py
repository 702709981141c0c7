"""Keep the events of moto's log streams in files, apply retention, and read them page by page.

moto holds all events in memory, and sorts all of them for every page.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from moto.logs.exceptions import InvalidParameterException
from moto.logs.models import LogEvent, LogGroup, LogStream, logs_backends

from tritonstack.base.files import parse_json
from tritonstack_local.state.log_files import LOG_FOLDER, LogFiles, StoredEvent

_PAGE_EVENTS = 10_000
_PAGE_BYTES = 1 << 20
_OVERHEAD = 26
"""Bytes that CloudWatch Logs counts per event besides its message."""
_set_retention, _delete_stream = LogGroup.set_retention_policy, LogGroup.delete_log_stream
Matches = Callable[[str], bool]


def _name(stream: Any) -> str:
    """Return the folder of a stream; another stream with its name has another one."""
    identity = f"{stream.arn} {stream.creation_time.isoformat()}"
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def _files(stream: Any) -> LogFiles:
    return LOG_FOLDER.files_of(_name(stream))


class _Events:
    """The events of a stream, used by moto like a list."""

    def __init__(self, stream: Any) -> None:
        self._base = int(_name(stream), 16)
        self._files = _files(stream)
        self._retention = _oldest_kept(stream.log_group)

    def __iadd__(self, events: Sequence[Any]) -> _Events:
        numbers = self._files.append(
            [(event.timestamp, event.ingestion_time, event.message) for event in events]
        )
        for event, number in zip(events, numbers, strict=True):
            event.event_id = self._base + number
        self._files.expire(self._retention)
        return self

    def __bool__(self) -> bool:
        return self._files.size > 0

    def __iter__(self) -> Iterator[Any]:
        for stored in self._files.forward(oldest=self._retention):
            event = LogEvent(
                stored.ingestion_time, {"timestamp": stored.timestamp, "message": stored.message}
            )
            event.event_id = self._base + stored.number
            yield event


def _oldest_kept(group: Any) -> int:
    """Return the timestamp before which events have expired."""
    days = group.retention_in_days
    return int((time.time() - int(days) * 86400) * 1000) if days else 0


def _state(stream: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(stream).items() if name not in ("events", "stored_bytes")}


def _update(stream: Any) -> None:
    """Set what DescribeLogStreams shows."""
    files = _files(stream)
    files.expire(_oldest_kept(stream.log_group))
    times = files.times()
    stream.first_event_timestamp, stream.last_event_timestamp = times or (None, None)
    if times and stream.last_ingestion_time is None:  # the cloud has restarted since
        stream.last_ingestion_time = datetime.fromtimestamp(times[1] / 1000, UTC).replace(tzinfo=None)


def _get_log_events(
    stream: Any,
    start_time: int | None,
    end_time: int | None,
    limit: int | None,
    next_token: str | None,
    start_from_head: bool | None,
) -> tuple[list[dict[str, Any]], str, str]:
    """Return a page with its tokens for the previous and the next one."""
    files = _files(stream)
    oldest = max(start_time or 0, _oldest_kept(stream.log_group))
    is_forward, place = bool(start_from_head), files.first if start_from_head else files.end
    if next_token is not None:
        direction, _, number = next_token.partition("/")
        if direction not in ("f", "b") or not number.isdecimal():
            raise InvalidParameterException("The specified nextToken is invalid.")
        is_forward, place = direction == "f", int(number)
    read = files.forward if is_forward else files.backward
    page = read(place, oldest=oldest, newest=end_time)
    events = sorted(_page(page, limit), key=lambda event: event.number)
    first, end = (events[0].number, events[-1].end) if events else (place, place)
    shown = [
        {"ingestionTime": event.ingestion_time, "message": event.message, "timestamp": event.timestamp}
        for event in events
    ]
    return shown, f"b/{first:056d}", f"f/{end:056d}"


def _page(events: Iterable[StoredEvent], limit: int | None) -> Iterator[StoredEvent]:
    size = 0
    for count, event in enumerate(events):
        size += len(event.message) + _OVERHEAD
        if count == (limit or _PAGE_EVENTS) or (count and size > _PAGE_BYTES):
            return
        yield event


def filter_group(
    group: Any,
    matches: Matches,
    *,
    names: Sequence[str],
    start_time: int | None,
    end_time: int | None,
    limit: int | None,
    token: str | None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the matching events of several streams in order of time, and the next token."""
    places = _places(token) if token else {}
    if places is None:
        return [], None  # as on AWS
    oldest = max(start_time or 0, _oldest_kept(group))
    streams = [stream for name, stream in group.streams.items() if not names or name in names]
    events = heapq.merge(
        *(_named(stream, places, oldest, end_time) for stream in streams), key=lambda item: item[1].timestamp
    )
    shown: list[dict[str, Any]] = []
    size = 0
    for stream, event in events:
        if matches(event.message):
            size += len(event.message) + _OVERHEAD
            if len(shown) == (limit or _PAGE_EVENTS) or (shown and size > _PAGE_BYTES):
                return shown, json.dumps(places)
            shown.append(
                {
                    "eventId": str(int(_name(stream), 16) + event.number),
                    "ingestionTime": event.ingestion_time,
                    "logStreamName": stream.log_stream_name,
                    "message": event.message,
                    "timestamp": event.timestamp,
                }
            )
        places[stream.log_stream_name] = event.end
    return shown, None


def _places(token: str) -> dict[str, int] | None:
    """Return the next event of each stream by its name; None for a token that is none of ours."""
    try:
        places = parse_json(token)
    except ValueError:
        return None
    is_ours = isinstance(places, dict) and all(isinstance(place, int) for place in places.values())
    return places if is_ours else None


def _named(
    stream: Any, places: dict[str, int], oldest: int, newest: int | None
) -> Iterator[tuple[Any, StoredEvent]]:
    start = places.get(stream.log_stream_name, 0)
    return ((stream, event) for event in _files(stream).forward(start, oldest=oldest, newest=newest))


def _set_and_apply_retention(group: Any, retention_in_days: str | None) -> None:
    _set_retention(group, retention_in_days)
    for stream in group.streams.values():
        _files(stream).expire(_oldest_kept(group))


def _delete_stream_and_events(group: Any, log_stream_name: str) -> None:
    stream = group.streams.get(log_stream_name)
    _delete_stream(group, log_stream_name)
    LOG_FOLDER.forget(_name(stream))


def forget_group(group: Any) -> None:
    """Remove the events of a deleted group."""
    for stream in group.streams.values():
        LOG_FOLDER.forget(_name(stream))


def sweep() -> None:
    """Remove the events of unknown streams, and expired ones."""
    names = set()
    for regions in list(logs_backends.values()):
        for backend in list(regions.values()):
            for group in backend.groups.values():
                for stream in group.streams.values():
                    names.add(_name(stream))
                    _files(stream).expire(_oldest_kept(group))
    LOG_FOLDER.sweep(names)


def _ignore(_stream: Any, _value: Any) -> None:
    """moto assigns what is in files."""


CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    (LogStream, "events", property(_Events, _ignore)),
    (LogStream, "stored_bytes", property(lambda stream: _files(stream).size, _ignore)),
    (LogStream, "__getstate__", _state),
    (LogStream, "_update", _update),
    (LogStream, "get_log_events", _get_log_events),
    (LogGroup, "set_retention_policy", _set_and_apply_retention),
    (LogGroup, "delete_log_stream", _delete_stream_and_events),
)
