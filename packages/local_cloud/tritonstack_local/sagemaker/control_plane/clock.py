"""Timestamps of SageMaker's records and files."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time with time zone."""
    return datetime.now(UTC)
