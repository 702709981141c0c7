"""Destroy expired environments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from tritonstack.base.errors import TritonstackError
from tritonstack.base.results import Internal, public
from tritonstack.operate.destroy.expiring import (
    ExpiringEnvironment,
    ExpiringEnvironments,
    ExpiryState,
    NotSearched,
    find_expiring,
    gap_lines,
)
from tritonstack.operate.destroy.expiring import reap as take_down
from tritonstack.operate.shared.aws import AWS_ERRORS, CloudAccessError, in_parallel
from tritonstack.operate.shared.deployed import LocationFilter, require_locations
from tritonstack.operate.shared.session import Session, Steps

_AT_ONCE = 4

ReapOutcome = Literal["kept", "planned", "destroyed", "extended", "failed"]
"""`planned`: a dry run found it expired; `extended`: its expiry was moved after it was found."""


@dataclass(frozen=True)
class ReapedEnvironment:
    """An environment with an expiry, and what `reap` did with it."""

    state: ExpiryState
    outcome: ReapOutcome
    failure: str = ""
    """Why its destruction failed."""


@dataclass(frozen=True)
class Reaping:
    """What happened to each environment with an expiry."""

    environments: Internal[tuple[ReapedEnvironment, ...]]
    not_searched: NotSearched
    """The locations that could not be searched, and why."""
    dry_run: bool
    access_denied: Internal[bool]
    """True if a reachable location denied access."""

    @public
    def failed(self) -> dict[str, str]:
        """Environment -> why its destruction failed."""
        return {
            environment.state.base: environment.failure
            for environment in self.environments
            if environment.outcome == "failed"
        }

    @property
    def succeeded(self) -> bool:
        """True if no destruction failed and no reachable location denied access."""
        return not (self.failed or self.access_denied)

    @public
    def expired(self) -> list[ExpiryState]:
        """Those that were expired."""
        return self._states("planned", "destroyed", "failed")

    @public
    def reaped(self) -> list[str]:
        """Those that were destroyed."""
        return [state.base for state in self._states("destroyed")]

    @public
    def kept(self) -> list[ExpiryState]:
        """Those that stay, with the reason."""
        return self._states("kept", "extended")

    @public
    def extended(self) -> list[str]:
        """Those whose expiry was moved after they were found."""
        return [state.base for state in self._states("extended")]

    def _states(self, *outcomes: ReapOutcome) -> list[ExpiryState]:
        return [environment.state for environment in self.environments if environment.outcome in outcomes]


def reap(session: Session, *, where: LocationFilter | None = None, dry_run: bool = False) -> Reaping:
    """Destroy every environment whose `expires` tag has passed, several in parallel.

    A destruction that fails does not stop the others; read `failed` of the result.
    """
    now = datetime.now(UTC)
    locations = require_locations(session.project, where or LocationFilter())
    with session.reporter.step("looking for environments with an expiry"):
        expiring = find_expiring(session, locations, now=now)
    if len(expiring.not_searched) == len(locations):
        raise CloudAccessError(
            "\n".join(
                ["no location could be searched for expired environments:", *gap_lines(expiring.not_searched)]
            ),
            remedy="log in, or name the location with --account and --region",
        )
    return Reaping(
        tuple(_planned(expiring) if dry_run else _reap(session, expiring.cases, now)),
        expiring.not_searched,
        dry_run,
        expiring.access_denied,
    )


def _planned(expiring: ExpiringEnvironments) -> Iterator[ReapedEnvironment]:
    for case in expiring.cases:
        yield ReapedEnvironment(case.state, "planned" if case.state.verdict == "expired" else "kept")


def _reap(session: Session, cases: Sequence[ExpiringEnvironment], now: datetime) -> list[ReapedEnvironment]:
    with session.reporter.steps() as steps:
        return in_parallel(lambda case: _take_down(steps, case, now), cases, at_once=_AT_ONCE)


def _take_down(steps: Steps, case: ExpiringEnvironment, now: datetime) -> ReapedEnvironment:
    """Destroy an environment if it has expired."""
    state = case.state
    if state.verdict != "expired":
        return ReapedEnvironment(state, "kept")
    title = f"destroying {state.base}, expired at {state.expires}"
    with steps.step(title, label=state.base) as step:
        try:
            if take_down(case.cloud, state.base, now=now, on_update=step.log):
                return ReapedEnvironment(state, "destroyed")
        except (TritonstackError, *AWS_ERRORS) as error:
            step.failed = True
            return ReapedEnvironment(state, "failed", str(error))
        step.detail = "extended; kept"
        return ReapedEnvironment(state, "extended")
