"""Lines of logs: each once, in order of time, from all pages and streams."""

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.operate.logs.strict_events import StrictEvents
from tritonstack.base.error_kinds import AwsCallError
from tritonstack.operate.logs.reading import OVERLAP_MS, LogCursor, LogLine, LogSource, MergedLog, follow_log

SEARCH, RANKER = "/aws/sagemaker/Endpoints/t-dev-search", "/aws/sagemaker/Endpoints/t-dev-ranker"
BEGIN = 1_900_000_000_000


class Account:
    """An account whose only service is CloudWatch Logs."""

    def __init__(self, events: StrictEvents) -> None:
        self._events = events

    def client(self, service: str) -> StrictEvents:
        assert service == "logs"
        return self._events


def cursor(events: StrictEvents, group: str = SEARCH, **options: Any) -> LogCursor:
    contains = options.pop("contains", "")
    source = LogSource(group.rpartition("-")[2], group, **options)
    account: Any = Account(events)
    return LogCursor(account, source, since_ms=BEGIN, contains=contains)


def messages(lines: Sequence[LogLine]) -> list[str]:
    return [line.message for line in lines]


@pytest.fixture
def events() -> StrictEvents:
    return StrictEvents(SEARCH, RANKER)


def test_all_pages_of_all_groups_are_read_in_order_of_time(events):
    for number in range(9):
        events.put((SEARCH, RANKER)[number % 2], f"main/i-{number % 3}", BEGIN + number, str(number))
    events.put(SEARCH, "main/i-0", BEGIN - 1, "before the requested time")
    log = MergedLog([cursor(events), cursor(events, RANKER)])
    assert messages(log.poll()) == [str(number) for number in range(9)]
    assert log.poll() == []


def test_lines_are_selected_by_variant_instance_and_text(events):
    events.put(SEARCH, "main/i-0a1", BEGIN, 'cannot load "bert"')
    events.put(SEARCH, "main/i-0b2", BEGIN + 1, "loaded")
    events.put(SEARCH, "challenger/i-0b3", BEGIN + 2, "loaded")
    assert messages(cursor(events, stream_prefix="main/").new_lines()) == ['cannot load "bert"', "loaded"]
    assert messages(cursor(events, instance="i-0b").new_lines()) == ["loaded", "loaded"]
    assert messages(cursor(events, stream_prefix="main/", instance="i-0b2").new_lines()) == ["loaded"]
    assert messages(cursor(events, stream_prefix="challenger/").new_lines()) == ["loaded"]
    assert messages(cursor(events, contains='load "').new_lines()) == ['cannot load "bert"']
    events.put(SEARCH, "main/i-0b2", BEGIN + 3, r"C:\models")
    assert messages(cursor(events, contains=r":\m").new_lines()) == [r"C:\models"]
    assert cursor(events, instance="0a1").new_lines() == []


def test_follow_loses_and_repeats_no_line_that_arrives_late(events):
    """Two streams deliver their lines in random batches, out of order, up to the tolerated delay."""
    chance = random.Random(7)  # noqa: S311 - no secret
    times = [BEGIN + 500 * number for number in range(200)]
    arrival = {at: at + chance.randrange(0, OVERLAP_MS - 500) for at in times}
    log, shown = MergedLog([cursor(events)]), []
    for now in range(BEGIN, max(arrival.values()) + 4000, 2000):
        for at in times:
            if arrival[at] <= now < arrival[at] + 2000:
                events.put(SEARCH, f"main/i-{at % 3}", at, str(at))
        shown += messages(log.poll())
    shown += messages(log.rest())
    assert sorted(shown) == [str(at) for at in times]


def test_a_log_group_may_appear_and_vanish(events):
    del events.groups[SEARCH]
    log = cursor(events)
    assert (log.new_lines(), log.group_exists) == ([], False)
    events.put(SEARCH, "main/i-1", BEGIN, "started")
    assert (messages(log.new_lines()), log.group_exists) == (["started"], True)
    del events.groups[SEARCH]
    assert (log.new_lines(), log.group_exists) == ([], False)


def test_following_ends_with_the_build_after_its_last_line(events):
    shown: list[str] = []
    late = {1: "in time", 2: "at the end", 3: "after the end"}
    polls = itertools.count(1)

    def ended() -> bool:
        poll = next(polls)
        if poll in late:
            events.put(SEARCH, "x", BEGIN + poll, late[poll])
        return poll >= 2

    log = MergedLog([cursor(events)])
    follow_log(log, on_lines=lambda lines: shown.extend(messages(lines)), ended=ended, pause=lambda: None)
    assert shown == list(late.values())
    assert next(polls) < 10


def test_a_missing_permission_names_its_action(events):
    events.denied = "User: arn:aws:iam::1:user/ann is not authorized to perform: logs:FilterLogEvents"
    with pytest.raises(AwsCallError, match="permission logs:FilterLogEvents") as caught:
        cursor(events).new_lines()
    assert "logs:FilterLogEvents" in str(caught.value.remedy)
