"""Lines of logs are appended to files, page by page readable, and limited in size and age."""

import gc
import pickle
import time

import pytest
from botocore.exceptions import ClientError
from moto.logs.models import LogEvent, logs_backends

from tritonstack_local.cloudwatch import log_streams
from tritonstack_local.state import log_events
from tritonstack_local.state.folder import NotKeptError
from tritonstack_local.state.log_events import LOG_EVENTS, LogEvents
from tritonstack_local.state.pickling import dumps

STREAM = {"logGroupName": "g", "logStreamName": "s"}
DAY_MS = 86_400_000


@pytest.fixture
def logs(account):
    client = account.client("logs")
    client.create_log_group(logGroupName="g")
    client.create_log_stream(**STREAM)
    return client


@pytest.fixture
def backend(account, logs):
    return logs_backends[account.account_id][account.region]


def put(logs, *messages, at=None, **stream):
    moment = int(time.time() * 1000) if at is None else at
    events = [{"timestamp": moment, "message": message} for message in messages]
    logs.put_log_events(**{**STREAM, **stream}, logEvents=events)


def read(logs, **options):
    """Read all pages as AWS documents it: until the token repeats."""
    messages, token = [], {}
    while True:
        page = logs.get_log_events(**STREAM, **options, **token)
        messages += [event["message"] for event in page["events"]]
        if token.get("nextToken") == page["nextForwardToken"]:
            return messages
        token = {"nextToken": page["nextForwardToken"]}


def search(logs, **options):
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName="g", **options)
    return [event["message"] for page in pages for event in page["events"]]


LINES = [f"line {number} \u2028 \x1b[0m caf\u00e9" for number in range(50)]


def name_of(backend, stream="s"):
    return log_streams._name(backend.groups["g"].streams[stream])


@pytest.mark.parametrize("limit", [1, 7, 50, 1000])
def test_every_line_is_read_once_in_order(logs, limit, monkeypatch):
    monkeypatch.setattr(log_events, "_ROWS", 11)
    for start in range(0, 50, 5):
        put(logs, *LINES[start : start + 5])
    assert read(logs, startFromHead=True, limit=limit) == LINES
    assert search(logs, PaginationConfig={"PageSize": limit}) == LINES
    page = logs.get_log_events(**STREAM, limit=limit)
    backward = [event["message"] for event in page["events"]]
    while len(backward) < 50:
        page = logs.get_log_events(**STREAM, limit=limit, nextToken=page["nextBackwardToken"])
        backward = [event["message"] for event in page["events"]] + backward
    assert backward == LINES


def test_lines_written_while_a_reader_pages_are_neither_lost_nor_repeated(logs):
    logs.create_log_stream(logGroupName="g", logStreamName="other")
    now = int(time.time() * 1000)
    put(logs, "a", "b", at=now)
    put(logs, "c", at=now + 5, logStreamName="other")
    page = logs.filter_log_events(logGroupName="g", limit=2)
    put(logs, "late", at=now - 5)
    rest = logs.filter_log_events(logGroupName="g", nextToken=page["nextToken"])
    assert sorted(event["message"] for event in page["events"] + rest["events"]) == ["a", "b", "c", "late"]
    assert logs.filter_log_events(logGroupName="g", nextToken="bm9uZQ==")["events"] == []
    with pytest.raises(ClientError) as caught:
        logs.get_log_events(**STREAM, nextToken="f/x")
    assert caught.value.response["Error"]["Code"] == "InvalidParameterException"


def test_a_page_is_limited_in_bytes(logs):
    for _ in range(4):
        put(logs, "x" * 200_000, "y" * 200_000)
    page = logs.get_log_events(**STREAM, startFromHead=True)
    assert sum(len(event["message"]) for event in page["events"]) <= 1 << 20
    assert len(read(logs, startFromHead=True)) == len(search(logs)) == 8


def test_lines_are_not_part_of_the_saved_state(logs, backend, running_cloud):
    put(logs, *LINES)
    stream = backend.groups["g"].streams["s"]
    assert "line 1" not in str(dumps(vars(stream)))
    written = running_cloud._writer._last_change
    put(logs, *LINES)
    assert running_cloud._writer._last_change == written
    described = logs.describe_log_streams(logGroupName="g")["logStreams"][0]
    again = pickle.loads(dumps(stream))  # noqa: S301 - as it is kept
    vars(again)["last_ingestion_time"] = None
    assert again.to_describe_dict()["lastEventTimestamp"] == described["lastEventTimestamp"]
    assert [event.message for event in again.events] == LINES * 2
    assert described["storedBytes"] > 0


def test_no_line_stays_in_memory(logs):
    marked = [f"marked {number}" for number in range(50)]
    put(logs, *marked)
    assert read(logs) == marked
    gc.collect()
    assert not [known for known in gc.get_objects() if isinstance(known, LogEvent)]


def test_a_stream_is_limited_in_size(logs, backend, monkeypatch):
    monkeypatch.setattr(log_events, "MOST_BYTES", 400)
    for line in LINES:
        put(logs, line)
    kept = read(logs, startFromHead=True)
    assert 10 < len(kept) < 25
    assert kept == LINES[-len(kept) :]
    assert LOG_EVENTS.size(name_of(backend)) == sum(len(line.encode()) for line in kept) <= 400


def test_expired_lines_are_removed(logs, backend):
    now = int(time.time() * 1000)
    put(logs, *(f"old {number}" for number in range(10)), at=now - 9 * DAY_MS)
    put(logs, "edge", at=now - 6 * DAY_MS)
    put(logs, "new")
    logs.put_retention_policy(logGroupName="g", retentionInDays=7)
    assert read(logs, startFromHead=True) == search(logs) == ["edge", "new"]
    assert LOG_EVENTS.size(name_of(backend)) == 7
    logs.put_retention_policy(logGroupName="g", retentionInDays=5)
    assert read(logs, startFromHead=True) == ["new"]


def test_deleted_streams_leave_no_lines(logs, backend):
    logs.create_log_stream(logGroupName="g", logStreamName="other")
    put(logs, "a")
    put(logs, "b", logStreamName="other")
    names = [name_of(backend), name_of(backend, "other")]
    logs.delete_log_stream(**STREAM)
    assert [LOG_EVENTS.size(name) for name in names] == [0, 1]
    logs.create_log_stream(**STREAM)
    assert read(logs) == []
    logs.delete_log_group(logGroupName="g")
    assert LOG_EVENTS.size(names[1]) == 0
    LOG_EVENTS.append("left-by-a-kill", [(1, 1, "x")])
    log_streams.sweep()
    assert LOG_EVENTS.times("left-by-a-kill") is None


def test_lines_survive_a_restart_and_numbers_are_not_used_again(tmp_path):
    events = LogEvents()
    events.use(tmp_path / "logs")
    assert events.append("s", [(1, 1, "a"), (2, 2, "\ud800")]) == [1, 2]
    events.forget("s")
    again = LogEvents()
    again.use(tmp_path / "logs")
    assert again.append("s", [(3, 3, "c")]) == [3]
    assert [event.message for event in again.read(["s"])] == ["c"]


def test_a_damaged_file_is_replaced(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir(mode=0o700)
    (folder / "events.db").write_bytes(b"damaged" * 1000)
    events = LogEvents()
    events.use(folder)
    events.append("s", [(1, 1, "kept")])
    assert [event.message for event in events.read(["s"], newest_first=True)] == ["kept"]


def test_lines_that_do_not_fit_on_the_disk_are_refused(tmp_path):
    events = LogEvents()
    events.use(tmp_path / "logs")
    events.append("s", [(1, 1, "kept")])
    events._database.execute("PRAGMA max_page_count = 1")
    with pytest.raises(NotKeptError):
        events.append("s", [(2, 2, "x" * 100_000)])
    assert [event.message for event in events.read(["s"])] == ["kept"]
