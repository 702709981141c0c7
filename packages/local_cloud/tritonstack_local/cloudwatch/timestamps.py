"""Convert timestamps: seconds since 1970, moto's dates, and CloudWatch's texts."""

from __future__ import annotations

from datetime import UTC, datetime


def seconds(moment: datetime) -> float:
    """Return a date as seconds; one without a zone is UTC, as moto means it."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def moment(at: float) -> datetime:
    """Return a date as moto keeps it: UTC, and not saying so."""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None)


def timestamp(at: float) -> str:
    """Write a moment as CloudWatch does in its JSON."""
    date = datetime.fromtimestamp(at, UTC)
    return f"{date:%Y-%m-%dT%H:%M:%S}.{date.microsecond // 1000:03d}+0000"
