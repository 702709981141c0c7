"""What came of looking at one side of an endpoint or an environment, for people and for machines.

A fault is something else than what was asked for, or something broken. A note is worth knowing and wrong by
nobody's word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tritonstack.operations.verification.comparing import Difference

_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_VARIANT_PATH = re.compile(r"^(?:Shadow)?ProductionVariants\[([^\]]+)\]\.")


@dataclass(frozen=True)
class Check:
    """One side of an endpoint, or of an environment."""

    aspect: str
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    detail: str = ""
    """What was found, in a few words."""
    compared: int = 0
    skipped: int = 0
    """Values that only CloudFormation knows."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.faults

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self) | {"passed": self.passed}


def in_words(differences: Iterable[Difference]) -> tuple[str, ...]:
    """Differences as a person reads them: digests in short, variants by their names."""
    return tuple(
        shortened(_VARIANT_PATH.sub(r"\1: ", difference.words)).replace("PrimaryContainer.", "")
        for difference in differences
    )


def shortened(text: str) -> str:
    """A text with its digests in short."""
    return _DIGEST.sub(r"\1", text)


def range_words(least: float, most: float) -> str:
    """From so many to so many."""
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"
