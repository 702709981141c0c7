"""Convert timestamps: seconds since 1970, moto's dates, and CloudWatch's texts."""

from __future__ import annotations

from datetime import UTC, datetime


def seconds(moment: datetime) -> float:
    """Return a date as seconds; without a time zone it is UTC, as in moto."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def moment(at: float) -> datetime:
    """Return a date in moto's format: UTC without time zone."""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None)


def timestamp(at: float) -> str:
    """Format a time as in CloudWatch's JSON."""
    date = datetime.fromtimestamp(at, UTC)
    return f"{date:%Y-%m-%dT%H:%M:%S}.{date.microsecond // 1000:03d}+0000"
