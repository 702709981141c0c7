"""How long waits last: AWS waits between rollout steps and in alarm periods are shortened.

Downloads, starts, health checks, invocations, and builds run in real time.
"""

from __future__ import annotations

from dataclasses import dataclass

REAL_MINUTE_S = 60.0
DEFAULT_MINUTE_S = 1.0
"""By default, a minute of waiting lasts one second."""


@dataclass(frozen=True)
class TimeScale:
    """The duration of an AWS minute of waiting."""

    minute_s: float = DEFAULT_MINUTE_S
    """Seconds here per minute on AWS."""

    def lasting(self, aws_s: float) -> float:
        """Return how long a wait of `aws_s` seconds lasts here."""
        return aws_s * self.minute_s / REAL_MINUTE_S


DEFAULT_TIME_SCALE = TimeScale()
