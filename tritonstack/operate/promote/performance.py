"""Judge recorded load tests against an endpoint's performance objective.

Pure: it uses the source's events, the artifact, and `now`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tritonstack.base.files import short_digest
from tritonstack.base.revisions import is_committed, short_commit
from tritonstack.files.endpoint.scaling import DAYS
from tritonstack.files.environment.promotion import ChangeWindow, PerformanceObjective
from tritonstack.files.records.events import Event, LoadTest, RecordedLevel

_ABOVE = 1 + 1e-9
"""Allows for rounding."""


@dataclass(frozen=True)
class PerformanceRequirement:
    """An objective of a target's endpoint for one artifact on one instance type."""

    endpoint: str
    """The endpoint in the target."""
    instance_type: str
    real_instances: bool
    """Whether the endpoint runs on AWS, so that only load tests on AWS count."""
    objective: PerformanceObjective
    measure: str
    """How to measure the artifact in the source."""


@dataclass(frozen=True)
class _Finding:
    progress: int
    """How many conditions it meets; the reason of the best one is reported."""
    words: str
    fails: bool = False
    """Whether it shows that the objective is missed."""


def judge_performance(
    requirements: Iterable[PerformanceRequirement],
    artifact: tuple[str, str],
    events: Iterable[Event],
    now: datetime,
    *,
    protected: bool,
) -> Iterator[tuple[PerformanceRequirement, str | None]]:
    """Yield each objective, and why no load test of an artifact (model, digest) shows it, if none does."""
    model, digest = artifact
    tests = [event for event in events if any(item.model == model for item in event.artifacts)]
    for requirement in requirements:
        yield requirement, _failure(requirement, digest, tests, now, protected=protected)


def _failure(
    requirement: PerformanceRequirement,
    digest: str,
    tests: Sequence[Event],
    now: datetime,
    *,
    protected: bool,
) -> str | None:
    """Return why no load test shows the objective; None if one does.

    `tests` are of the model, oldest first. A level at or above the rate that keeps the limits shows
    the objective. A level at or below the rate that exceeds them shows the opposite. The latest one decides.
    The rate is per instance: of the highest number for the first, of the lowest for the second. A trace never
    shows the opposite, because its peaks are above its mean rate.
    """
    findings: list[_Finding] = []
    for event in reversed(tests):
        if event.load_test is None:
            if event.kind == "load-tested":
                words = f"the load test of {_shown(event)} is of another version of tritonstack, and ignored"
                findings.append(_Finding(0, words))
            continue
        obstacle = _obstacle(requirement, digest, event, event.load_test, now, protected=protected)
        if obstacle is not None:
            findings.append(obstacle)
            continue
        judged = list(_judged(requirement.objective, event.load_test.levels, _shown(event)))
        missed = next((finding for finding in judged if finding is not None and finding.fails), None)
        if missed is not None:
            return missed.words
        if None in judged:
            return None
        findings += filter(None, judged)
    if not findings:
        return "there is no recorded load test"
    return max(findings, key=lambda finding: finding.progress).words


def _obstacle(
    requirement: PerformanceRequirement,
    digest: str,
    event: Event,
    test: LoadTest,
    now: datetime,
    *,
    protected: bool,
) -> _Finding | None:
    """Return why a load test says nothing about the artifact in the target now."""
    test_of, when = f"the load test of {_shown(event)}", datetime.fromisoformat(event.at)
    measured = next((item.digest for item in event.artifacts), "")
    if measured != digest:
        return _Finding(0, f"{test_of} measured another artifact ({short_digest(measured)})")
    if requirement.real_instances and not test.real_instances:
        return _Finding(1, f"{test_of} ran on the local cloud, and the endpoint runs on AWS")
    if test.instance_type != requirement.instance_type:
        return _Finding(
            2, f"{test_of} ran on {test.instance_type}, and the endpoint runs on {requirement.instance_type}"
        )
    if now - when > timedelta(days=requirement.objective.max_age_days):
        days = (now - when) / timedelta(days=1)
        limit = requirement.objective.max_age_days
        return _Finding(3, f"{test_of} is {days:.1f} days old, required: at most {limit:g}")
    if protected and not is_committed(event.commit):
        source = short_commit(event.commit) if event.commit else "files outside git"
        return _Finding(4, f"{test_of} is ignored: it is from {source}")
    return None


def _judged(
    objective: PerformanceObjective, levels: Iterable[RecordedLevel], at: str
) -> Iterator[_Finding | None]:
    """Yield None for each level that shows the objective, otherwise the reason why it does not."""
    for level in sorted(levels, key=lambda measured: measured.offered_per_s or 0, reverse=True):
        yield _judge(objective, level, at)


def _judge(objective: PerformanceObjective, level: RecordedLevel, at: str) -> _Finding | None:
    if level.offered_per_s is None:
        words = "a closed loop waits for late answers and shows no latency at a rate"
        return _Finding(5, f"the load test of {at} has only other loads: {level.load}; {words}")
    required = objective.rate_per_instance
    measured = f"{_rates(level, level.offered_per_s)} requests per second and instance on {at}"
    exceeded = list(_exceeded(objective, level))
    if exceeded:
        fails = not level.is_trace and level.offered_per_s <= required * level.lowest_instances * _ABOVE
        beyond = "" if fails else f"; the objective's rate, {required:g}, was not measured"
        varying = " (the mean of a trace)" if level.is_trace else ""
        return _Finding(7, f"{measured}{varying}: {' and '.join(exceeded)}{beyond}", fails)
    if level.offered_per_s * _ABOVE < required * level.highest_instances:
        return _Finding(6, f"the highest rate without failure is {measured}, required: {required:g}")
    if level.p99_ms is None:
        return _Finding(8, f"{measured}: {level.answers} answers are too few for a 99th percentile")
    if not level.steady:
        return _Finding(9, f"{measured}: latency was not steady")
    return None


def _rates(level: RecordedLevel, offered: float) -> str:
    """Return the rate per instance; both ends if the number of instances changed."""
    least = f"{offered / level.highest_instances:g}"
    if level.lowest_instances == level.highest_instances:
        return least
    return (
        f"{least} to {offered / level.lowest_instances:g}" if level.lowest_instances else f"{least} or more"
    )


def _exceeded(objective: PerformanceObjective, level: RecordedLevel) -> Iterator[str]:
    if level.p99_ms is not None and level.p99_ms > objective.p99_ms:
        yield f"p99 latency {level.p99_ms:.1f} ms, required: at most {objective.p99_ms:g} ms"
    if level.failed_percent > objective.max_failed_percent:
        yield (
            f"{level.failed_percent:.2f} % of the requests failed, required: at most "
            f"{objective.max_failed_percent:g} %"
        )


def _shown(event: Event) -> str:
    return datetime.fromisoformat(event.at).astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")


def next_opening(windows: Sequence[ChangeWindow], now: datetime) -> datetime | None:
    """Return when the next window opens, in UTC; None if none does within two weeks."""
    openings = [opening for window in windows for opening in _openings(window, now)]
    return min(openings, default=None)


def _openings(window: ChangeWindow, now: datetime) -> Iterator[datetime]:
    """Yield the times at which a window opens in the next days.

    If the start time is skipped because clocks go forward, the window opens when they do. If it occurs twice
    because clocks go back, the first occurrence counts.
    """
    zone = ZoneInfo(window.timezone)
    hour, minute = map(int, window.start.split(":"))
    today = now.astimezone(zone).date()
    for ahead in range(15):
        day = today + timedelta(days=ahead)
        if DAYS[day.weekday()] not in window.days:
            continue
        local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
        first, second = local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)
        # A time that clocks leave out is before the change with one offset, and after it with the other.
        is_skipped = second < first
        for opening in (_next_change(second, zone),) if is_skipped else (first, second):
            if opening > now and window.is_open(opening):
                yield opening


def _next_change(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return when clocks change next, to the minute."""
    offset = moment.astimezone(zone).utcoffset()
    while moment.astimezone(zone).utcoffset() == offset:
        moment += timedelta(minutes=1)
    return moment
