"""Published vulnerabilities of Triton releases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tritonstack.facts.advisories.table import ADVISORIES

CRITICAL = 9.0
"""The lowest CVSS score of a critical vulnerability."""


@dataclass(frozen=True)
class Advisory:
    """A vulnerability that NVIDIA has published."""

    cve: str
    fixed_in: str
    """The first release without it."""
    score: float
    """CVSS score, 0 to 10."""

    @property
    def is_critical(self) -> bool:
        """Whether its score is in the highest class."""
        return self.score >= CRITICAL


@cache
def advisories_of(release: str) -> tuple[Advisory, ...]:
    """Return the vulnerabilities that later releases fix, the highest score first."""
    advisories = [Advisory(*row) for row in ADVISORIES]
    return tuple(
        sorted(
            (advisory for advisory in advisories if advisory.fixed_in > release),
            key=lambda advisory: (-advisory.score, advisory.cve),
        )
    )
