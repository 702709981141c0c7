"""Results of checks, for messages and `--json`.

A failure is a difference or a failed request; a note is information.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tritonstack.base.results import public
from tritonstack.operations.verification.comparing import Difference, PropertyComparison

_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_VARIANT_PATH = re.compile(r"^(?:Shadow)?ProductionVariants\[([^\]]+)\]\.")


@dataclass(frozen=True)
class Check:
    """The check of one aspect of an endpoint or environment."""

    aspect: str
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    detail: str = ""
    """A summary."""
    compared: int = 0
    skipped: int = 0
    """Values that only CloudFormation knows."""

    @classmethod
    def of(
        cls,
        aspect: str,
        comparison: PropertyComparison,
        failures: Iterable[str] = (),
        notes: Iterable[str] = (),
        *,
        detail: str,
        others: int = 0,
    ) -> Check:
        """Return the check of compared values and of `others`, with the failures of those."""
        return cls(
            aspect,
            (*failures, *describe_differences(comparison.differences)),
            tuple(notes),
            detail,
            comparison.compared + others,
            comparison.skipped,
        )

    @public
    def passed(self) -> bool:
        """Return whether there are no failures."""
        return not self.failures


def describe_differences(differences: Iterable[Difference]) -> tuple[str, ...]:
    """Return differences with short digests and variant names."""
    return tuple(
        shortened(_VARIANT_PATH.sub(r"\1: ", difference.description)).replace("PrimaryContainer.", "")
        for difference in differences
    )


def shortened(text: str) -> str:
    """Shorten the digests in a text."""
    return _DIGEST.sub(r"\1", text)


def range_text(least: float, most: float) -> str:
    """Return a range of counts as text."""
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"
