"""Timestamps of SageMaker's records and files."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Read the clock, time zone included."""
    return datetime.now(UTC)
