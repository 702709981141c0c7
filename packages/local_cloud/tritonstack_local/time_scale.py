"""How fast this cloud's minutes pass where AWS only waits: between a rollout's steps, in alarms' periods.

What takes real work keeps real time: downloads, starts, health checks, invocations and builds.
"""

from __future__ import annotations

from dataclasses import dataclass

REAL_MINUTE_S = 60.0
USUAL_MINUTE_S = 1.0
"""A minute of waiting lasts a second, unless the cloud is started otherwise."""


@dataclass(frozen=True)
class Pace:
    """The pace of waiting."""

    minute_s: float = USUAL_MINUTE_S
    """What a minute on AWS lasts here, in seconds."""

    def lasting(self, aws_s: float) -> float:
        """Say how long a time that AWS waits lasts here."""
        return aws_s * self.minute_s / REAL_MINUTE_S


USUAL_PACE = Pace()
