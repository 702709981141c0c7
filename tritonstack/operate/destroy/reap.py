"""Destroy expired environments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Literal

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.results import Internal, Shown, public
from tritonstack.files.environment.tags import EXPIRES, OWNER, LifetimeError, has_expired, parse_moment
from tritonstack.operate.destroy.environment import OnUpdate, destroy_environment
from tritonstack.operate.destroy.retained import orphaned
from tritonstack.operate.shared.aws import AWS_ERRORS, Cloud, CloudAccessError, in_parallel
from tritonstack.operate.shared.deployed import Location, LocationFilter, require_locations
from tritonstack.operate.shared.session import Session, Steps
from tritonstack.operate.shared.stacks import DELETED, StackState, is_own, list_stacks, with_planned_tags

Verdict = Literal["expired", "active", "protected", "unreadable"]


@dataclass(frozen=True, order=True)
class ExpiryState:
    """A deployed environment with an expiry."""

    base: str
    owner: str
    expires: str
    verdict: Verdict
    stacks: tuple[str, ...]


def expiring_environments(cloud: Cloud, *, prefix: str, now: datetime) -> list[ExpiryState]:
    """Return all environments with an expiry in an account and region."""
    return judge(_stacks(cloud, f"{prefix}-"), now)


def _stacks(cloud: Cloud, prefix: str) -> list[StackState]:
    """Return the stacks, and those of which only configurations and models remain, with their tags.

    What remains decides only for environments without stacks: it may have the tags of an earlier deployment.
    Stacks are listed last, so that one created meanwhile counts.
    """
    remains = orphaned(cloud, lambda stack: stack.startswith(prefix))
    stacks = [with_planned_tags(cloud, stack) for stack in list_stacks(cloud, prefix=prefix)]
    existing = {naming.base_of_stack(stack.name) for stack in stacks}
    deleted = [
        StackState(item.stack, DELETED, tags=item.tags)
        for item in remains
        if naming.base_of_stack(item.stack) not in existing
    ]
    return [*stacks, *deleted]


def judge(stacks: Iterable[StackState], now: datetime) -> list[ExpiryState]:
    """Return the environments with an expiry, and the decision for each.

    The latest expiry of its stacks counts, because an extension may not have reached all of them.
    Environments without an expiry are ignored.
    """
    own_stacks = [stack for stack in stacks if is_own(stack)]
    bases = {base for stack in own_stacks if (base := naming.base_of_stack(stack.name))}
    members = {
        base: [stack for stack in own_stacks if naming.base_of_stack(stack.name) == base] for base in bases
    }
    return sorted(expiry for base, group in members.items() if (expiry := _expiry_state(base, group, now)))


def _expiry_state(base: str, stacks: Sequence[StackState], now: datetime) -> ExpiryState | None:
    dated = [stack for stack in stacks if EXPIRES in stack.tags]
    if not dated:
        return None
    latest = max(dated, key=lambda stack: stack.tags[EXPIRES])
    expires, owner = latest.tags[EXPIRES], latest.tags.get(OWNER, "unknown")
    names = tuple(stack.name for stack in stacks if stack.status != DELETED)
    return ExpiryState(base, owner, expires, _verdict(stacks, expires, now), names)


def destroy_if_expired(cloud: Cloud, base: str, *, now: datetime, on_update: OnUpdate) -> bool:
    """Destroy an environment if it is still expired, because it may have been extended.

    If it is extended during the destruction, the foundation is kept.
    """
    if not _has_expired(cloud, base, now):
        return False

    def check_again() -> None:
        if not _has_expired(cloud, base, now):
            raise TritonstackError(
                f"{base} was extended during its destruction; its remaining stacks are kept",
                remedy="wait for that deployment to finish, then rerun it to recreate the deleted stacks",
                code=LifetimeError.code,
            )

    destroy_environment(cloud, base, on_update=on_update, before_layer=check_again)
    return True


def _has_expired(cloud: Cloud, base: str, now: datetime) -> bool:
    environment = judge(_stacks(cloud, f"{base}-"), now)
    return any(item.base == base and item.verdict == "expired" for item in environment)


def _verdict(stacks: Iterable[StackState], expires: str, now: datetime) -> Verdict:
    if any(stack.protected for stack in stacks):
        return "protected"
    try:
        parse_moment(expires)
    except UsageError:
        return "unreadable"
    return "expired" if has_expired({EXPIRES: expires}, now) else "active"


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
    state = case.state
    if state.verdict != "expired":
        return ReapedEnvironment(state, "kept")
    title = f"destroying {state.base}, expired at {state.expires}"
    with steps.step(title, label=state.base) as step:
        try:
            if destroy_if_expired(case.cloud, state.base, now=now, on_update=step.log):
                return ReapedEnvironment(state, "destroyed")
        except (TritonstackError, *AWS_ERRORS) as error:
            step.failed = True
            return ReapedEnvironment(state, "failed", str(error))
        step.detail = "extended; kept"
        return ReapedEnvironment(state, "extended")
