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
from typing import Literal

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
    filled = max(0, condition.periods - len(real))
    if not filled or condition.missing in {"breaching", "notBreaching"}:
        real = real[: condition.periods]
        breaching = _breaching(real, condition) + (filled if condition.missing == "breaching" else 0)
        return AlarmDecision(_counted(breaching, condition), real, filled)
    breaching = _breaching(real, condition)
    if real and (breaching >= condition.needed or breaching < len(real)):
        return AlarmDecision(_counted(breaching, condition), real)
    if condition.missing == "ignore":
        return None
    is_old = bool(real) and newest_first.index(real[-1]) + 1 >= condition.needed
    return AlarmDecision("ALARM" if is_old else "INSUFFICIENT_DATA", real)


def _breaching(windows: Sequence[Window], condition: Condition) -> int:
    return sum(window.value is not None and condition.breached_by(window.value) for window in windows)


def _counted(breaching: int, condition: Condition) -> State:
    return "ALARM" if breaching >= condition.needed else "OK"


def reason(decision: AlarmDecision, condition: Condition) -> str:
    """Return the reason in CloudWatch's wording."""
    if decision.state == "INSUFFICIENT_DATA":
        unknown = condition.windows - len(decision.evaluated)
        return f"Insufficient Data: {_datapoints(unknown)} {_was(unknown)} unknown."
    treated = "Breaching" if condition.missing == "breaching" else "NonBreaching"
    missing = (
        f"{decision.filled} missing {_datapoints(decision.filled).split()[1]} {_was(decision.filled)} "
        f"treated as [{treated}]"
    )
    if not decision.evaluated:
        return f"Threshold Crossed: no datapoints were received and {missing}."
    fires = decision.state == "ALARM"
    deciding = [
        window
        for window in decision.evaluated
        if window.value is not None and condition.breached_by(window.value) == fires
    ]
    shown = deciding or decision.evaluated
    values = ", ".join(f"{window.value} ({_short(window.start)})" for window in shown)
    than = f"{'' if fires else 'not '}{_COMPARISONS[condition.comparison][1]}"
    filled = f" and {missing}" if decision.filled else ""
    return (
        f"Threshold Crossed: {_datapoints(len(shown))} [{values}] {_was(len(shown))} {than} the threshold "
        f"({condition.threshold}){filled}."
    )


def _datapoints(count: int) -> str:
    return "1 datapoint" if count == 1 else f"{count} datapoints"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _short(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%d/%m/%y %H:%M:%S}"
