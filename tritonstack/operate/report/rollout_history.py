"""Read the latest rollouts of an endpoint: CloudFormation's events, alarms, and requests during each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tritonstack.operate.shared.aws import Cloud, metric_query, pages
from tritonstack.operate.status.traffic import request_dimensions
from tritonstack.operate.verify.expectations import ExpectedEndpoint

_SHOWN = 3
"""Rollouts per endpoint."""
_STACK = "AWS::CloudFormation::Stack"
_TYPES = ("AWS::SageMaker::Endpoint", "AWS::SageMaker::InferenceComponent")
_AROUND = timedelta(minutes=5)
_MOST_EVENTS = 500
_METRIC_PERIODS = ((timedelta(days=15), 60), (timedelta(days=63), 300))
"""Until which age CloudWatch keeps values per period in seconds."""
_LONGEST_PERIOD_S = 3600
_ALARM_HISTORY = timedelta(days=30)
"""CloudWatch keeps the history of alarms this long."""
Point = tuple[float, float]


@dataclass(frozen=True)
class AlarmPeriod:
    """A period in which an alarm was in state ALARM, in seconds since the start of the rollout."""

    alarm: str
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class PastRollout:
    """One update of an endpoint. Times are in seconds since its start."""

    endpoint: str
    started: datetime
    seconds: float
    """Its duration; up to now if it is running."""
    outcome: str
    planned: tuple[Point, ...]
    """Planned share of the requests that the new instances answer, in percent, since the first shift."""
    strategy: str
    requests: tuple[Point, ...] = ()
    """Requests per minute; averages over `period_s`."""
    errors: tuple[Point, ...] = ()
    """Server errors per minute; averages over `period_s`."""
    period_s: int = 60
    alarms: tuple[str, ...] = ()
    """The alarms that roll back."""
    firing_alarms: tuple[AlarmPeriod, ...] = ()
    unknown_alarms: tuple[str, ...] = ()
    """The alarms whose state is unknown: their history has expired."""
    stages: tuple[tuple[float, str], ...] = ()
    """What SageMaker has reported of a rollout in progress, and when."""

    @property
    def planned_shift(self) -> tuple[Point, ...]:
        """Return the planned shift of a completed rollout, which ends with it, since the start.

        The local cloud can run faster than AWS: its shift is as much shorter.
        """
        length = self.planned[-1][0]
        factor = min(1.0, self.seconds / length) if length else 1.0
        begin = self.seconds - length * factor
        return ((0.0, 0.0), (begin, 0.0), *((begin + at * factor, share) for at, share in self.planned))


@dataclass(frozen=True)
class EndpointUpdate:
    """An update of the endpoint's resource, from CloudFormation's events."""

    started: datetime
    ended: datetime | None = None
    failure: str = ""
    """Why it failed; empty if it did not."""

    @property
    def outcome(self) -> str:
        """Return the outcome in words."""
        if self.ended is None:
            return "in progress"
        return f"rolled back: {self.failure}" if self.failure else "completed"

    def ended_with(self, event: Mapping[str, Any]) -> EndpointUpdate:
        """Return this update with its last event."""
        failed = event["ResourceStatus"] != "UPDATE_COMPLETE"
        reason = event.get("ResourceStatusReason") or "no reason given"
        return replace(self, ended=event["Timestamp"], failure=reason if failed else "")


def rollouts_of(cloud: Cloud, stack: str, expected: ExpectedEndpoint, *, now: datetime) -> list[PastRollout]:
    """Return the latest rollouts of an endpoint, latest first."""
    limit = {"MaxItems": _MOST_EVENTS}
    events = [
        *pages(
            cloud.client("cloudformation"),
            "describe_stack_events",
            "StackEvents",
            StackName=stack,
            PaginationConfig=limit,
        )
    ]
    updates = list(updates_in(reversed(events)))[-_SHOWN:]
    return [_rollout(cloud, expected, update, now) for update in reversed(updates)]


def planned_shift(config: Mapping[str, Any]) -> tuple[str, tuple[Point, ...]]:
    """Return the name of a deployment policy, and the planned traffic of the new instances. Pure."""
    policy = config.get("BlueGreenUpdatePolicy", {})
    routing = policy.get("TrafficRoutingConfiguration", {})
    kind, wait = routing.get("Type", "ALL_AT_ONCE"), float(routing.get("WaitIntervalInSeconds", 0))
    bake = float(policy.get("TerminationWaitInSeconds", 0))
    if "RollingUpdatePolicy" in config:
        rolling = config["RollingUpdatePolicy"]
        wait = float(rolling["WaitIntervalInSeconds"])
        return "rolling", _steps(float(rolling["MaximumBatchSize"]["Value"]), wait, wait)
    if kind == "LINEAR":
        return "linear", _steps(float(routing["LinearStepSize"]["Value"]), wait, bake)
    if kind == "CANARY":
        size = float(routing["CanarySize"]["Value"])
        return "canary", ((0, size), (wait, size), (wait, 100), (wait + bake, 100))
    return "all at once", ((0, 100), (bake, 100))


def updates_in(events: Iterable[Mapping[str, Any]]) -> Iterator[EndpointUpdate]:
    """Yield the updates of the endpoint's resource; `events` are oldest first. Pure.

    After a failure, CloudFormation updates the resource again to restore it: that is part of the failed one.
    """
    current: EndpointUpdate | None = None
    restoring = False
    for event in events:
        status = event["ResourceStatus"]
        if event["ResourceType"] == _STACK:
            restoring = "ROLLBACK" in status
        elif event["ResourceType"] in _TYPES and status.startswith("UPDATE_"):
            if status != "UPDATE_IN_PROGRESS" and current is not None:
                yield current.ended_with(event)
                current = None
            elif current is None and status == "UPDATE_IN_PROGRESS" and not restoring:
                current = EndpointUpdate(event["Timestamp"])
    if current is not None:
        yield current


def _rollout(cloud: Cloud, expected: ExpectedEndpoint, update: EndpointUpdate, now: datetime) -> PastRollout:
    end = update.ended or now
    strategy, planned = planned_shift(expected.rollout)
    window = (update.started - _AROUND, min(end + _AROUND, now))
    age = now - window[0]
    period_s = next((seconds for oldest, seconds in _METRIC_PERIODS if age < oldest), _LONGEST_PERIOD_S)
    requests, errors = _traffic(cloud, expected, update.started, window, period_s)
    names = expected.rollback_alarms
    alarms = {name: _periods(cloud, name, update.started, window, now) for name in names}
    return PastRollout(
        endpoint=expected.name,
        started=update.started,
        seconds=(end - update.started).total_seconds(),
        outcome=update.outcome,
        planned=planned,
        strategy=strategy,
        requests=requests,
        errors=errors,
        period_s=period_s,
        alarms=tuple(names),
        stages=tuple(_stages(cloud, expected.name, end - update.started)) if update.ended is None else (),
        firing_alarms=tuple(period for periods in alarms.values() for period in periods or ()),
        unknown_alarms=tuple(name for name, periods in alarms.items() if periods is None),
    )


def _stages(cloud: Cloud, endpoint: str, since_start: timedelta) -> Iterator[tuple[float, str]]:
    """Yield what SageMaker reports of an update in progress."""
    described = cloud.client("sagemaker").describe_endpoint(EndpointName=endpoint)
    variants = described.get("PendingDeploymentSummary", {}).get("ProductionVariants", ())
    statuses = [status for variant in variants for status in variant.get("VariantStatus", ())]
    if statuses:
        texts = dict.fromkeys(f"{stage['Status']}: {stage.get('StatusMessage', '')}" for stage in statuses)
        yield since_start.total_seconds(), "; ".join(texts)


def _traffic(
    cloud: Cloud,
    expected: ExpectedEndpoint,
    start: datetime,
    window: tuple[datetime, datetime],
    period_s: int,
) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """Return requests and server errors per minute."""
    metrics = ("Invocations", "Invocation5XXErrors")
    queries = [(metric, dimensions) for metric in metrics for dimensions in request_dimensions(expected)]
    answer = cloud.client("cloudwatch").get_metric_data(
        MetricDataQueries=[
            metric_query(f"q{number}", metric, dimensions, "Sum", period_s)
            for number, (metric, dimensions) in enumerate(queries)
        ],
        StartTime=window[0],
        EndTime=window[1],
    )
    sums: dict[str, dict[float, float]] = {metric: {} for metric in metrics}
    for item in answer["MetricDataResults"]:
        metric = queries[int(item["Id"][1:])][0]
        for at, value in zip(item["Timestamps"], item["Values"], strict=True):
            second = (at.astimezone(UTC) - start).total_seconds()
            sums[metric][second] = sums[metric].get(second, 0.0) + value * 60 / period_s
    requests, errors = (tuple(sorted(sums[metric].items())) for metric in metrics)
    return requests, errors


def _periods(
    cloud: Cloud, alarm: str, start: datetime, window: tuple[datetime, datetime], now: datetime
) -> list[AlarmPeriod] | None:
    """Return when an alarm was in state ALARM; None if CloudWatch no longer knows."""
    changes = list[tuple[datetime, str]]()
    complete = window[0] >= now - _ALARM_HISTORY
    if complete:
        changes = list(_state_changes(cloud, alarm, window))
    # The first change after the begin says from which state: without one, the present state is that of then.
    fires = changes[0][1].startswith("Alarm updated from ALARM") if changes else None
    if fires is None:
        fires = _fires_since(cloud, alarm, window[0], complete=complete)
    if fires is None:
        return None
    begin, end = (moment - start for moment in window)
    since = begin.total_seconds() if fires else None
    periods = list[AlarmPeriod]()
    for at, summary in changes:
        if at > window[1]:
            break
        second = (at - start).total_seconds()
        if "to ALARM" in summary:
            since = second if since is None else since
        elif since is not None:
            periods.append(AlarmPeriod(alarm, since, second))
            since = None
    return periods if since is None else [*periods, AlarmPeriod(alarm, since, end.total_seconds())]


def _state_changes(
    cloud: Cloud, alarm: str, window: tuple[datetime, datetime]
) -> Iterator[tuple[datetime, str]]:
    """Yield time and summary of an alarm's state changes in a window and of the first after it."""
    changes = pages(
        cloud.client("cloudwatch"),
        "describe_alarm_history",
        "AlarmHistoryItems",
        AlarmName=alarm,
        HistoryItemType="StateUpdate",
        StartDate=window[0],
        ScanBy="TimestampAscending",
    )
    for item in changes:
        yield item["Timestamp"], item["HistorySummary"]
        if item["Timestamp"] > window[1]:
            return


def _fires_since(cloud: Cloud, alarm: str, since: datetime, *, complete: bool) -> bool | None:
    """Return whether an alarm that has not changed is in state ALARM; None if it may have changed.

    `complete` says that its history since then has no change.
    """
    alarms = cloud.client("cloudwatch").describe_alarms(AlarmNames=[alarm])["MetricAlarms"]
    if not alarms:
        return None
    changed = alarms[0].get("StateTransitionedTimestamp") or alarms[0]["StateUpdatedTimestamp"]
    if not complete and changed > since:
        return None
    fires: bool = alarms[0]["StateValue"] == "ALARM"
    return fires


def _steps(size: float, wait: float, bake: float) -> tuple[Point, ...]:
    """Return a staircase from `size` to 100 percent."""
    points: list[Point] = []
    share, second = size, 0.0
    while share < 100:
        points += [(second, share), (second + wait, share)]
        share, second = share + size, second + wait
    return (*points, (second, 100), (second + bake, 100))
