"""Decide an alarm's state from the values of its periods, without clock or store.

Rules and reason texts follow CloudWatch's user guide and responses:

* An alarm of N evaluation periods looks at N + 2 windows, the evaluation range: the guide's example is 5
  for 3, and AWS says of others only that there are more than N.
* N real values anywhere in the range decide by themselves, the newest first; only what is missing of N is
  filled in as TreatMissingData says.
* With `missing` and `ignore`, breaching values that no other contradicts fire once the oldest of them is as
  old as DatapointsToAlarm; younger ones do not: a metric that flows now and then would fire too early.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from tritonstack_local.cloudwatch.timestamps import timestamp

State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
STATES: tuple[State, ...] = ("OK", "ALARM", "INSUFFICIENT_DATA")
INITIAL_REASON = "Unchecked: Initial alarm creation"

EXTRA_WINDOWS = 2

_COMPARISONS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}
COMPARISONS = tuple(_COMPARISONS)
TREATMENTS = ("breaching", "notBreaching", "ignore", "missing")


@dataclass(frozen=True)
class Condition:
    """The condition of an alarm."""

    comparison: str
    threshold: float
    periods: int
    datapoints: int | None = None
    """DatapointsToAlarm; None if not set."""
    missing: str = "missing"

    @property
    def needed(self) -> int:
        """Number of values that must breach."""
        return self.datapoints or self.periods

    @property
    def windows(self) -> int:
        """Number of evaluated windows."""
        return self.periods + EXTRA_WINDOWS

    def breached_by(self, value: float) -> bool:
        """Return whether a value breaches the threshold."""
        return _COMPARISONS[self.comparison][0](value, self.threshold)


@dataclass(frozen=True)
class Window:
    """One window: its start, and its value if any."""

    start: float
    value: float | None
    samples: float | None = None


@dataclass(frozen=True)
class AlarmDecision:
    """The resulting state and the values behind it."""

    state: State
    evaluated: tuple[Window, ...]
    """The existing values used, newest first."""
    filled: int = 0
    """Number of missing values filled in."""


def decide(windows: Sequence[Window], condition: Condition) -> AlarmDecision | None:
    """Return the new state; None to keep the current one. The newest window comes last."""
    newest_first = tuple(reversed(windows))
    real = tuple(window for window in newest_first if window.value is not None)
    if len(real) >= condition.periods:
        kept = real[: condition.periods]
        return AlarmDecision(_counted(_breaching(kept, condition), condition), kept)
    filled = condition.periods - len(real)
    if condition.missing in {"breaching", "notBreaching"}:
        assumed = filled if condition.missing == "breaching" else 0
        return AlarmDecision(_counted(_breaching(real, condition) + assumed, condition), real, filled)
    return _without_filling(newest_first, real, condition)


def _without_filling(
    newest_first: tuple[Window, ...], real: tuple[Window, ...], condition: Condition
) -> AlarmDecision | None:
    breaching = _breaching(real, condition)
    if real and (breaching >= condition.needed or breaching < len(real)):
        return AlarmDecision(_counted(breaching, condition), real)
    if condition.missing == "ignore":
        return None
    if real and newest_first.index(real[-1]) + 1 >= condition.needed:
        return AlarmDecision("ALARM", real)
    return AlarmDecision("INSUFFICIENT_DATA", real)


def _breaching(windows: Sequence[Window], condition: Condition) -> int:
    return sum(window.value is not None and condition.breached_by(window.value) for window in windows)


def _counted(breaching: int, condition: Condition) -> State:
    return "ALARM" if breaching >= condition.needed else "OK"


def reason(decision: AlarmDecision, condition: Condition, *, before: State) -> str:
    """Return the reason in CloudWatch's wording."""
    if decision.state == "INSUFFICIENT_DATA":
        count = condition.windows - len(decision.evaluated)
        return f"Insufficient Data: {_counted_noun(count, 'datapoint')} {_was(count)} unknown."
    missing = _missing_text(decision, condition)
    if not decision.evaluated:
        periods = _counted_noun(condition.periods, "period")
        return f"Threshold Crossed: no datapoints were received for {periods} and {missing}."
    in_alarm = decision.state == "ALARM"
    shown = [
        window
        for window in decision.evaluated
        if window.value is not None and condition.breached_by(window.value) == in_alarm
    ] or list(decision.evaluated)
    values = ", ".join(f"{window.value} ({_short(window.start)})" for window in shown)
    how_many = (
        _counted_noun(len(shown), "datapoint")
        if condition.datapoints is None
        else f"{len(shown)} out of the last {condition.periods} datapoints"
    )
    than = _COMPARISONS[condition.comparison][1]
    clause = f"{_was(len(shown))} {'' if in_alarm else 'not '}{than} the threshold ({condition.threshold})"
    filled = f" and {missing}" if decision.filled else ""
    return (
        f"Threshold Crossed: {how_many} [{values}] {clause}{filled}{_minimum(decision, condition, before)}."
    )


def _minimum(decision: AlarmDecision, condition: Condition, before: State) -> str:
    if condition.datapoints is None:
        return ""
    if decision.state == "ALARM":
        return f" (minimum {_counted_noun(condition.needed, 'datapoint')} for OK -> ALARM transition)"
    count = condition.periods - condition.needed + 1
    return f" (minimum {_counted_noun(count, 'datapoint')} for ALARM -> OK transition)"


def _missing_text(decision: AlarmDecision, condition: Condition) -> str:
    treated = "Breaching" if condition.missing == "breaching" else "NonBreaching"
    count = decision.filled
    return (
        f"{count} missing {'datapoint' if count == 1 else 'datapoints'} {_was(count)} treated as [{treated}]"
    )


def reason_data(
    decision: AlarmDecision, condition: Condition, *, at: float, watched: Mapping[str, Any]
) -> dict[str, Any]:
    """Return StateReasonData; `watched` has statistic, unit, and period."""
    real = decision.evaluated
    points: list[dict[str, Any]] = [
        {"timestamp": timestamp(window.start)}
        | ({} if window.samples is None else {"sampleCount": window.samples})
        | {"value": window.value}
        for window in real
    ]
    data: dict[str, Any] = {"version": "1.0", "queryDate": timestamp(at)}
    if real:
        data["startDate"] = timestamp(real[-1].start)
    recent = [window.value for window in reversed(real)]
    return (
        data
        | dict(watched)
        | {
            "recentDatapoints": recent,
            "threshold": condition.threshold,
            "evaluatedDatapoints": points,
        }
    )


def _short(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%d/%m/%y %H:%M:%S}"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _counted_noun(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
