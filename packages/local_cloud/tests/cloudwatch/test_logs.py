"""Filter patterns of CloudWatch Logs, including those of the stacks."""

import time

import pytest

from tritonstack.constructs.monitoring.monitored import FILTER_PATTERNS, LogCount
from tritonstack_local.cloudwatch.logs import PatternError, parse_pattern


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        ("", "anything", True),
        ("ERROR", "[ERROR 400] bad", True),
        ("ERROR", "[error 400] bad", False),
        ("ERROR bad", "bad ERROR", True),
        ("ERROR bad", "ERROR", False),
        ('"bad request"', "a bad request", True),
        ('"bad request"', "request bad", False),
        ('"say \\"no\\""', 'they say "no"', True),
        ("?ERROR ?WARN", "a WARN line", True),
        ("?ERROR ?WARN", "an INFO line", False),
        (r"%^\d{3}\s[A-Z]+$%", "404 NO", True),
        (r"%^\d{3}\s[A-Z]+$%", "1404 NO", False),
    ],
)
def test_patterns(pattern, line, expected):
    assert parse_pattern(pattern).matches(line) is expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("{ $.code = 500 }", "does not support filter patterns for JSON"),
        ("[ip, user]", "does not support filter patterns for columns"),
        ("?a b", "optional terms"),
        ("a:b", "double quotes"),
        ("ERROR -Exiting", "double quotes"),
        ('"open', "Invalid character"),
        ("%(a|b)%", "no groups"),
        ("%a b%", "no spaces"),
        ("%C[^u]%", "no negated ones"),
        ("%[a%", "Invalid expression"),
        ("%a% b", "a single expression"),
    ],
)
def test_invalid_and_unsupported_input_is_rejected(pattern, message):
    with pytest.raises(PatternError, match=message):
        parse_pattern(pattern)


ERROR = "E1121 10:00:00.123456 2 model_lifecycle.cc:642] \"failed to load 'bert' version 1: Internal: no\""
DRIVER = 'E1121 10:00:00.123456 2 cuda.cc:1] "CudaDriverHelper has not been initialized."'
UNHEALTHY = "I1121 10:00:00.123456 2 stub.cc:1] \"Stub process 'a' is not healthy.\""
MEMORY = "torch.cuda.OutOfMemoryError: CUDA out of memory"


@pytest.mark.parametrize(
    ("count", "lines"),
    [
        (LogCount.ERRORS, {ERROR}),
        (LogCount.FAILED_LOADS, {ERROR}),
        (LogCount.OUT_OF_MEMORY, {MEMORY}),
        (LogCount.UNHEALTHY_STUBS, {UNHEALTHY}),
    ],
)
def test_filter_patterns_of_the_stacks(count, lines):
    pattern = parse_pattern(FILTER_PATTERNS[count])
    assert {line for line in (ERROR, DRIVER, UNHEALTHY, MEMORY) if pattern.matches(line)} == lines


@pytest.fixture
def group(account):
    """A log group of two streams, whose lines alternate in time."""
    logs, now = account.client("logs"), int(time.time() * 1000)
    logs.create_log_group(logGroupName="/search")
    for number, stream in enumerate(("main/i-1", "challenger/i-2")):
        logs.create_log_stream(logGroupName="/search", logStreamName=stream)
        events = [{"timestamp": now + 2 * at + number, "message": f"{stream} {at}"} for at in range(3)]
        logs.put_log_events(logGroupName="/search", logStreamName=stream, logEvents=events)
    return logs


def found(logs, **parameters):
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName="/search", PaginationConfig={"PageSize": 2}, **parameters
    )
    return [event for page in pages for event in page["events"]]


def test_lines_of_all_streams_are_found_in_order_of_time(group):
    messages = [event["message"] for event in found(group)]
    assert messages == [f"{stream} {at}" for at in range(3) for stream in ("main/i-1", "challenger/i-2")]
    assert len({event["eventId"] for event in found(group)}) == 6


def test_lines_are_found_by_the_prefix_of_their_stream(group):
    assert {event["logStreamName"] for event in found(group, logStreamNamePrefix="main/")} == {"main/i-1"}
    assert found(group, logStreamNamePrefix="shadow/") == []
    with pytest.raises(group.exceptions.InvalidParameterException, match="mutually exclusive"):
        found(group, logStreamNamePrefix="main/", logStreamNames=["main/i-1"])
    with pytest.raises(group.exceptions.ResourceNotFoundException):
        group.filter_log_events(logGroupName="/none", logStreamNamePrefix="main/")
