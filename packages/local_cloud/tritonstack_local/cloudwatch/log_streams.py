"""Keep the events of moto's log streams in a database, apply retention, and read them page by page.

moto holds all events in memory, and sorts all of them for every page.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from moto.logs.exceptions import InvalidParameterException
from moto.logs.models import LogEvent, LogGroup, LogStream, logs_backends

from tritonstack_local.state.log_events import LOG_EVENTS, StoredEvent

_PAGE_EVENTS = 10_000
_PAGE_BYTES = 1 << 20
_OVERHEAD = 26
"""Bytes that CloudWatch Logs counts per event besides its message."""
_DAY_MS = 86_400_000
_set_retention, _delete_stream = LogGroup.set_retention_policy, LogGroup.delete_log_stream
Matches = Callable[[str], bool]


def _name(stream: Any) -> str:
    """Return the name of a stream's events; another stream with its name has other ones."""
    identity = f"{stream.arn} {stream.creation_time.isoformat()}"
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


class _Events:
    """The events of a stream, used by moto like a list."""

    def __init__(self, stream: Any) -> None:
        self._name = _name(stream)
        self._oldest = _oldest_kept(stream.log_group)

    def __iadd__(self, events: Sequence[Any]) -> _Events:
        rows = [(event.timestamp, event.ingestion_time, event.message) for event in events]
        for event, number in zip(events, LOG_EVENTS.append(self._name, rows), strict=True):
            event.event_id = number
        return self

    def __bool__(self) -> bool:
        return LOG_EVENTS.size(self._name) > 0

    def __iter__(self) -> Iterator[Any]:
        for stored in LOG_EVENTS.read([self._name], oldest=self._oldest):
            fields = {"timestamp": stored.timestamp, "message": stored.message}
            event = LogEvent(stored.ingestion_time, fields)
            event.event_id = stored.number
            yield event


def _oldest_kept(group: Any) -> int:
    """Return the timestamp before which events have expired."""
    days = group.retention_in_days
    return int(time.time() * 1000) - int(days) * _DAY_MS if days else 0


def _state(stream: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(stream).items() if name not in ("events", "stored_bytes")}


def _update(stream: Any) -> None:
    """Set what DescribeLogStreams shows."""
    name = _name(stream)
    LOG_EVENTS.expire(name, _oldest_kept(stream.log_group))
    times = LOG_EVENTS.times(name)
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
    oldest = max(start_time or 0, _oldest_kept(stream.log_group))
    is_forward, place = bool(start_from_head), 0 if start_from_head else LOG_EVENTS.end
    if next_token is not None:
        direction, _, number = next_token.partition("/")
        if direction not in ("f", "b") or not number.isdecimal():
            raise InvalidParameterException("The specified nextToken is invalid.")
        is_forward, place = direction == "f", int(number)
    options: dict[str, Any] = {"start": place} if is_forward else {"end": place, "newest_first": True}
    found = LOG_EVENTS.read([_name(stream)], oldest=oldest, newest=end_time, **options)
    events = sorted(_page(found, limit))
    first, end = (events[0].number, events[-1].number + 1) if events else (place, place)
    return [_shown(event) for event in events], f"b/{first:056d}", f"f/{end:056d}"


def _shown(event: StoredEvent) -> dict[str, Any]:
    return {
        "ingestionTime": event.ingestion_time,
        "message": event.message,
        "timestamp": event.timestamp,
    }


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
    """Return a page of the matching events of several streams, in order of time, and the next token.

    Pages follow the order of arrival, so that a reader loses no line that arrives while it reads.
    """
    start = int(token) if token and token.isdecimal() else 0
    if token and not start:
        return [], None  # as on AWS
    oldest = max(start_time or 0, _oldest_kept(group))
    streams = {_name(stream): name for name, stream in group.streams.items() if not names or name in names}
    page: list[StoredEvent] = []
    size, next_token = 0, None
    for event in LOG_EVENTS.read(streams, start=start, oldest=oldest, newest=end_time):
        if matches(event.message):
            size += len(event.message) + _OVERHEAD
            if len(page) == (limit or _PAGE_EVENTS) or (page and size > _PAGE_BYTES):
                next_token = str(event.number)
                break
            page.append(event)
    shown = [
        {**_shown(event), "logStreamName": streams[event.stream], "eventId": f"{event.number:056d}"}
        for event in sorted(page, key=lambda event: event.timestamp)
    ]
    return shown, next_token


def _set_and_apply_retention(group: Any, retention_in_days: str | None) -> None:
    _set_retention(group, retention_in_days)
    for stream in group.streams.values():
        LOG_EVENTS.expire(_name(stream), _oldest_kept(group))


def _delete_stream_and_events(group: Any, log_stream_name: str) -> None:
    stream = group.streams.get(log_stream_name)
    _delete_stream(group, log_stream_name)
    LOG_EVENTS.forget(_name(stream))


def forget_group(group: Any) -> None:
    """Remove the events of a deleted group."""
    for stream in group.streams.values():
        LOG_EVENTS.forget(_name(stream))


def sweep() -> None:
    """Remove the events of unknown streams, and expired ones."""
    names = set()
    for regions in list(logs_backends.values()):
        for backend in list(regions.values()):
            for group in backend.groups.values():
                for stream in group.streams.values():
                    names.add(_name(stream))
                    LOG_EVENTS.expire(_name(stream), _oldest_kept(group))
    LOG_EVENTS.sweep(names)


def _ignore(_stream: Any, _value: Any) -> None:
    """moto assigns what is in the database."""


CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    (LogStream, "events", property(_Events, _ignore)),
    (LogStream, "stored_bytes", property(lambda stream: LOG_EVENTS.size(_name(stream)), _ignore)),
    (LogStream, "__getstate__", _state),
    (LogStream, "_update", _update),
    (LogStream, "get_log_events", _get_log_events),
    (LogGroup, "set_retention_policy", _set_and_apply_retention),
    (LogGroup, "delete_log_stream", _delete_stream_and_events),
)
