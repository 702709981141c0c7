"""The time, as records and files of this SageMaker carry it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Read the clock, time zone included."""
    return datetime.now(UTC)
