"""Lines of logs are kept in a database, page by page readable, and limited in size and age."""

import gc
import pickle
import time

import pytest
from botocore.exceptions import ClientError
from moto.logs.models import LogEvent, logs_backends

from tritonstack_local.cloudwatch import log_streams
from tritonstack_local.state import log_lines
from tritonstack_local.state.errors import NotKeptError, StateDamagedError
from tritonstack_local.state.log_lines import LOG_LINES, LineStore
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


@pytest.mark.parametrize("limit", [1, 7, 50, 1000])
def test_every_line_is_read_once_in_order(logs, limit):
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


def key_of(backend, name="s"):
    return log_streams._key(backend.groups["g"].streams[name])


def test_a_stream_is_limited_in_size(logs, backend, monkeypatch):
    monkeypatch.setattr(log_lines, "MOST_BYTES", 500)
    for line in LINES:
        put(logs, line)
    kept = read(logs, startFromHead=True)
    assert 400 < sum(len(line.encode()) for line in kept) == LOG_LINES.size(key_of(backend)) <= 500
    assert kept == LINES[-len(kept) :]


def test_expired_lines_are_removed(logs, backend):
    now = int(time.time() * 1000)
    for number in range(10):
        put(logs, f"old {number}", at=now - 9 * DAY_MS)
    put(logs, "edge", at=now - 6 * DAY_MS)
    put(logs, "new")
    logs.put_retention_policy(logGroupName="g", retentionInDays=7)
    assert read(logs, startFromHead=True) == search(logs) == ["edge", "new"]
    assert LOG_LINES.size(key_of(backend)) == len("edgenew")
    logs.put_retention_policy(logGroupName="g", retentionInDays=5)
    assert read(logs, startFromHead=True) == ["new"]


def test_deleted_streams_leave_no_lines(logs, backend):
    logs.create_log_stream(logGroupName="g", logStreamName="other")
    put(logs, "a")
    put(logs, "b", logStreamName="other")
    streams = [key_of(backend, name) for name in ("s", "other")]
    stray = 7
    LOG_LINES.append(stray, [(1, 1, "left by a kill")])
    logs.delete_log_stream(**STREAM)
    assert [LOG_LINES.count(stream) for stream in (*streams, stray)] == [0, 1, 1]
    logs.create_log_stream(**STREAM)
    assert read(logs) == []
    log_streams.sweep()
    assert [LOG_LINES.count(stream) for stream in (*streams, stray)] == [0, 1, 0]
    logs.delete_log_group(logGroupName="g")
    assert LOG_LINES.count(streams[1]) == 0


@pytest.fixture
def lines(tmp_path):
    made = LineStore()
    made.use(tmp_path)
    made.append(1, [(1, 1, "kept"), (2, 2, "odd \ud800\0")])
    return made


def test_lines_are_read_again_and_their_numbers_are_not_used_again(lines, tmp_path):
    lines.append(2, [(3, 3, "gone")])
    lines.forget(2)
    again = LineStore()
    again.use(tmp_path)
    assert [line.message for line in again.forward(1)] == ["kept", "odd \ud800\0"]
    assert again.append(1, [(4, 4, "next")]) == [4]
    assert [line.number for line in again.backward(1, again.end, newest=1 << 70)] == [4, 2, 1]
    assert list(again.forward(1, 1 << 70)) == list(again.forward(1, oldest=1 << 70)) == []


def test_a_damaged_database_is_not_read(tmp_path):
    (tmp_path / "lines.sqlite").write_bytes(b"damaged" * 1000)
    with pytest.raises(StateDamagedError):
        LineStore().use(tmp_path)


def test_lines_that_do_not_fit_on_the_disk_are_refused(lines):
    (pages,) = lines._database.execute("PRAGMA page_count").fetchone()
    lines._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(NotKeptError, match="full"):
        lines.append(1, [(2, 2, "lost"), (3, 3, "x" * 100_000)])
    assert [line.timestamp for line in lines.forward(1)] == [1, 2]
