"""Format times, digests, and numbers: the filters of the templates."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from datetime import UTC, datetime

from markupsafe import Markup

from tritonstack.base.files import short_digest
from tritonstack.base.revisions import short_commit
from tritonstack.operate.report.report_data import EndpointCost


def moment(at: str | datetime) -> str:
    """Return a time in minutes, UTC."""
    text = at.astimezone(UTC).isoformat() if isinstance(at, datetime) else at
    return f"{text[:10]} {text[11:16]}"


def digest(text: str | None) -> str:
    """Return the start of a digest."""
    return _identifier(short_digest(text)) if text else "–"


def commit(text: str | None) -> str:
    """Return the start of a commit."""
    return _identifier(short_commit(text)) if text else "–"


def _identifier(text: str) -> Markup:
    """Return a text that is never broken into lines."""
    return Markup('<code class="id">{}</code>').format(text)


def with_code(text: str) -> Markup:
    """Return a text whose parts between backticks are code."""
    code = Markup("<code>{}</code>")
    parts = text.split("`")
    return Markup("").join(code.format(part) if number % 2 else part for number, part in enumerate(parts))


def number(value: float | None, form: str = "{:,.0f}") -> str:
    """Return a number; a dash without one."""
    return "–" if value is None else form.format(value)


def megabytes(size: int) -> str:
    """Return a size in MB."""
    return f"{size / 1e6:,.1f} MB"


def minutes(seconds: float) -> str:
    """Return a duration."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def count(amount: int | Sized, singular: str, plural: str | None = None) -> str:
    """Return a number, or how many there are, with its noun."""
    amount = amount if isinstance(amount, int) else len(amount)
    return f"{amount} {singular if amount == 1 else plural or singular + 's'}"


def total(costs: Iterable[EndpointCost], name: str) -> float | None:
    """Return the sum of one amount of some costs; None if one of them lacks it."""
    amounts = [getattr(cost, name) for cost in costs]
    return None if None in amounts else sum(amounts)
