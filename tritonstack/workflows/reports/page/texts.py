"""Format times, digests, and numbers."""

from __future__ import annotations

from datetime import UTC, datetime

from tritonstack.base.files import short_digest
from tritonstack.base.revisions import short_commit
from tritonstack.workflows.reports.page.markup import Markup, tag


def moment(at: str | datetime) -> str:
    """Return a time in minutes, UTC."""
    text = at.astimezone(UTC).isoformat() if isinstance(at, datetime) else at
    return f"{text[:10]} {text[11:16]}"


def digest(text: str | None) -> Markup:
    """Return the start of a digest."""
    return _identifier(short_digest(text)) if text else Markup("–")


def commit(text: str | None) -> Markup:
    """Return the start of a commit."""
    return _identifier(short_commit(text)) if text else Markup("–")


def _identifier(text: str) -> Markup:
    """Return a text that is never broken into lines."""
    return tag("code", text, class_="id")


def number(value: float | None, form: str = "{:,.0f}") -> str:
    """Return a number; a dash without one."""
    return "–" if value is None else form.format(value)


def megabytes(size: int) -> str:
    """Return a size in MB."""
    return f"{size / 1e6:,.1f} MB"


def minutes(seconds: float) -> str:
    """Return a duration."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def count(amount: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{amount} {singular if amount == 1 else plural or singular + 's'}"
