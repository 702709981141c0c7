"""Find environments with an `expires` tag in every location of the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from tritonstack.base.errors import TritonstackError
from tritonstack.base.results import Shown
from tritonstack.operations.aws import AWS_ERRORS, Cloud, in_parallel
from tritonstack.operations.destruction.reaping import ExpiryState, expiring_environments
from tritonstack.workflows.environments.deployed import Location
from tritonstack.workflows.session import Session

__all__ = [
    "ExpiringEnvironment",
    "ExpiringEnvironments",
    "ExpiryState",
    "expiry_text",
    "find_expiring",
    "gap_lines",
]

_TEXTS: Mapping[str, str] = {
    "expired": "expired at {expires}",
    "active": "expires at {expires}",
    "protected": "is protected; kept",
    "unreadable": "has an invalid `expires` tag; kept",
}


@dataclass(frozen=True)
class ExpiringEnvironment:
    """An environment with an expiry, and its cloud."""

    cloud: Cloud
    state: ExpiryState


def gap_lines(not_searched: Mapping[Location, str]) -> list[str]:
    """Return the locations that were not searched as text."""
    return [f"{location.account} {location.region}: {reason}" for location, reason in not_searched.items()]


NotSearched = Annotated[Mapping[Location, str], Shown(gap_lines)]


@dataclass(frozen=True)
class ExpiringEnvironments:
    """The result of a search."""

    cases: tuple[ExpiringEnvironment, ...] = ()
    not_searched: Mapping[Location, str] = field(default_factory=dict)
    """The locations that could not be searched, and why."""
    access_denied: bool = False
    """True if a reachable location denied access."""


def find_expiring(session: Session, places: Sequence[Location], *, now: datetime) -> ExpiringEnvironments:
    """Search all locations in parallel."""
    searches = in_parallel(lambda location: _search(session, location, now), places)
    return ExpiringEnvironments(
        tuple(case for search in searches for case in search.cases),
        {location: reason for search in searches for location, reason in search.not_searched.items()},
        any(search.access_denied for search in searches),
    )


def _search(session: Session, location: Location, now: datetime) -> ExpiringEnvironments:
    try:
        cloud = session.cloud_at(location.account, location.region, subject="the location")
        expiring = expiring_environments(cloud, prefix=location.prefix, now=now)
    except TritonstackError as error:
        return ExpiringEnvironments(not_searched={location: error.message})
    except AWS_ERRORS as error:
        return ExpiringEnvironments(not_searched={location: str(error)}, access_denied=True)
    return ExpiringEnvironments(tuple(ExpiringEnvironment(cloud, state) for state in expiring))


def expiry_text(state: ExpiryState) -> str:
    """Return the owner and expiry as text."""
    return f"{state.base} of {state.owner} {_TEXTS[state.verdict].format(expires=state.expires)}"
