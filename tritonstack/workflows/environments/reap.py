"""Destroy expired environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import AWS_ERRORS, CloudAccessError
from tritonstack.operations.destruction.reaping import reap as take_down
from tritonstack.workflows.environments.deployed import LocationFilter, require_locations
from tritonstack.workflows.environments.expiring import (
    ExpiringEnvironment,
    ExpiringEnvironments,
    find_expiring,
)
from tritonstack.workflows.reporter import Steps
from tritonstack.workflows.session import Session

_AT_ONCE = 4


@dataclass(frozen=True)
class Reaping:
    """The expired environments that were found, and those that were destroyed."""

    found: ExpiringEnvironments
    dry_run: bool
    failures: Mapping[str, str] = field(default_factory=dict)
    """Environment -> why its destruction failed."""

    @property
    def expired(self) -> list[ExpiringEnvironment]:
        """The environments that have expired."""
        return [case for case in self.found.cases if case.state.verdict == "expired"]

    @property
    def succeeded(self) -> bool:
        """True if no destruction failed and no reachable location refused to answer."""
        return not (self.failures or self.found.refused)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        expired = self.expired
        names = [case.state.base for case in expired if case.state.base not in self.failures]
        return {
            "dry_run": self.dry_run,
            "expired": [asdict(case.state) for case in expired],
            "reaped": [] if self.dry_run else names,
            "failed": dict(self.failures),
            "kept": [asdict(case.state) for case in self.found.cases if case not in expired],
            "unreachable": self.found.gaps,
        }


def reap(session: Session, *, where: LocationFilter | None = None, dry_run: bool = False) -> Reaping:
    """Destroy every environment whose `expires` tag has passed, several in parallel.

    A destruction that fails does not stop the others; read `failures` of the result.
    """
    now = datetime.now(UTC)
    locations = require_locations(session.project, where or LocationFilter())
    found = find_expiring(session, locations, now=now)
    if len(found.unreachable) == len(locations):
        raise CloudAccessError(
            "\n".join(["no location could be searched for expired environments:", *found.gaps]),
            remedy="log in, or name the location with --account and --region",
            code="TS501",
        )
    planned = Reaping(found, dry_run)
    return planned if dry_run else Reaping(found, dry_run, _reap(session, planned.expired, now))


def _reap(session: Session, expired: Sequence[ExpiringEnvironment], now: datetime) -> dict[str, str]:
    """Destroy environments; return the reason of each failure."""
    with session.reporter.steps() as steps, ThreadPoolExecutor(_AT_ONCE) as pool:
        failures = list(pool.map(lambda case: _take_down(steps, case, now), expired))
    return {case.state.base: failure for case, failure in zip(expired, failures, strict=True) if failure}


def _take_down(steps: Steps, case: ExpiringEnvironment, now: datetime) -> str:
    base = case.state.base
    with steps.step(f"destroying {base}, expired at {case.state.expires}", label=base) as step:
        try:
            if not take_down(case.cloud, base, now=now, on_update=step.log):
                step.detail = "extended; kept"
        except (TritonstackError, *AWS_ERRORS) as error:
            step.failed = True
            return str(error)
    return ""
