"""Lines of logs are appended to files, page by page readable, and limited in size and age."""

import gc
import os
import pickle
import resource
import time

import pytest
from botocore.exceptions import ClientError
from moto.logs.models import LogEvent, logs_backends

from tritonstack_local.cloudwatch import log_streams
from tritonstack_local.state import log_files
from tritonstack_local.state.folder import NotKeptError
from tritonstack_local.state.log_files import LOG_FOLDER, LogFiles
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


@pytest.fixture
def segments(monkeypatch):
    monkeypatch.setattr(log_files, "SEGMENT_BYTES", 400)


@pytest.mark.usefixtures("segments")
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


@pytest.mark.usefixtures("segments")
def test_a_stream_is_limited_in_size(logs, backend, monkeypatch):
    monkeypatch.setattr(log_files, "MOST_SEGMENTS", 7)
    for number, line in enumerate(LINES):
        put(logs, line)
        if number < 20:
            assert read(logs, startFromHead=True)[0] == LINES[0]
    files = LOG_FOLDER.files_of(log_streams._name(backend.groups["g"].streams["s"]))
    assert len(list(files._folder.iterdir())) <= 7
    assert sum(path.stat().st_size for path in files._folder.iterdir()) == files.size < 7 * 600
    kept = read(logs, startFromHead=True)
    assert 0 < len(kept) < 50
    assert kept == LINES[-len(kept) :]


@pytest.mark.usefixtures("segments")
def test_expired_lines_are_removed(logs, backend):
    now = int(time.time() * 1000)
    for number in range(10):
        put(logs, f"old {number}", "o" * 100, at=now - 9 * DAY_MS)
    files = LOG_FOLDER.files_of(log_streams._name(backend.groups["g"].streams["s"]))
    for path in files._folder.iterdir():
        os.utime(path, (time.time() - 9 * 86_400,) * 2)
    put(logs, "edge", at=now - 6 * DAY_MS)
    put(logs, "new")
    before, end = files.size, files.end
    logs.put_retention_policy(logGroupName="g", retentionInDays=7)
    assert read(logs, startFromHead=True) == search(logs) == ["edge", "new"]
    assert files.size < before / 2
    logs.put_retention_policy(logGroupName="g", retentionInDays=5)
    assert read(logs, startFromHead=True) == ["new"]
    files.expire(now + DAY_MS)
    assert (files.size, read(logs, startFromHead=True)) == (0, [])
    assert LogFiles(files._folder).end == files.end == end


def test_deleted_streams_leave_no_files(logs, backend):
    logs.create_log_stream(logGroupName="g", logStreamName="other")
    put(logs, "a")
    put(logs, "b", logStreamName="other")
    folders = [
        LOG_FOLDER.files_of(log_streams._name(backend.groups["g"].streams[name]))._folder
        for name in ("s", "other")
    ]
    assert all(folder.is_dir() for folder in folders)
    logs.delete_log_stream(**STREAM)
    assert [folder.exists() for folder in folders] == [False, True]
    logs.create_log_stream(**STREAM)
    assert read(logs) == []
    logs.delete_log_group(logGroupName="g")
    assert not folders[1].exists()
    stray = folders[0].parent / "left-by-a-kill"
    stray.mkdir()
    log_streams.sweep()
    assert not stray.exists()


@pytest.mark.parametrize(
    "torn", [b"[1, 2", b"\x00" * 40, b'[1, 2, "x"', b"[1, 2\n", b"5\n", b"{}\n", b"[null, 1, 2]\n"]
)
def test_a_torn_or_damaged_line_costs_no_other(tmp_path, torn):
    files, other = LogFiles(tmp_path / "s"), LogFiles(tmp_path / "s")
    (number,) = files.append([(1, 1, "before")])
    with (tmp_path / "s" / f"{0:015}").open("ab") as file:
        file.write(torn)
    other.append([(2, 2, "after")])
    files.append([(3, 3, "last")])
    assert [event.message for event in files.forward()] == ["before", "after", "last"]
    assert [event.message for event in other.backward(files.end)] == ["last", "after", "before"]
    assert number == 0


def test_lines_that_do_not_fit_on_the_disk_are_refused(tmp_path):
    files = LogFiles(tmp_path / "s")
    files.append([(1, 1, "kept")])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
    try:
        with pytest.raises(NotKeptError):
            files.append([(2, 2, "lost" * 100)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [event.message for event in LogFiles(tmp_path / "s").forward()] == ["kept"]
    assert files.size < 50
