"""What a report shows, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, TypeVar

from tritonstack.base.errors import TritonstackError
from tritonstack.base.results import Internal, Shown
from tritonstack.facts.advisories.published import Advisory
from tritonstack.files.records.events import Event
from tritonstack.files.records.locks import Figures
from tritonstack.files.records.manifests import Manifest
from tritonstack.operate.locks.versions import HistoryEntry
from tritonstack.operate.project.inspection import GraphStep
from tritonstack.operate.promote.gates import GateResult
from tritonstack.operate.report.rollout_history import PastRollout
from tritonstack.operate.shared.aws import AWS_ERRORS
from tritonstack.operate.status.status import EnvironmentStatus

T = TypeVar("T")


@dataclass(frozen=True)
class MissingData:
    """Something that the report cannot show, and what produces it."""

    subject: str
    reason: str
    remedy: str = ""


def describe_error(error: BaseException) -> str:
    """Return the reason that an error gives."""
    return error.message if isinstance(error, TritonstackError) else f"AWS error: {error}"


def missing_data(subject: str, error: BaseException) -> MissingData:
    """Return what an error made unavailable."""
    remedy = error.remedy if isinstance(error, TritonstackError) else ""
    return MissingData(subject, describe_error(error), remedy or "")


class Gaps(list[MissingData]):
    """What a report lacks."""

    def attempt(self, subject: str, read: Callable[[], T]) -> T | None:
        """Return what a function reads; note that it is missing if that fails."""
        try:
            return read()
        except (TritonstackError, *AWS_ERRORS) as error:
            self.append(missing_data(subject, error))
            return None


@dataclass(frozen=True)
class LockedModel:
    """A model in an environment for one kind of machine."""

    target: str
    digest: str | None
    """None if it is not built."""
    outdated: str = ""
    """How the files differ from those that were built; empty if they do not."""
    instead_of: str | None = None
    """Digest that a rollback replaced with this one; None without a rollback that still applies."""
    differences: tuple[str, ...] = ()
    """How the artifact differs from the one in the source of promotions."""
    figures: Figures | None = None
    unverified: str | None = None
    override: str = ""
    """The promotion gates that were overridden, and the reason."""
    running: Mapping[str, str | None] = field(default_factory=dict)
    """Endpoint -> running digest, where it is another than the locked one."""


@dataclass(frozen=True)
class PromotionGates:
    """The promotion gates of an environment."""

    source: str
    required: tuple[str, ...]
    results: tuple[GateResult, ...] | None = None
    """None if the gates were not evaluated."""
    pending: tuple[str, ...] = ()
    """What a promotion would copy, one line per artifact; empty if all is up to date."""
    reason: str = ""
    """Why the gates were not evaluated."""

    @property
    def failed(self) -> tuple[GateResult, ...]:
        """Return the gates that failed."""
        return tuple(result for result in self.results or () if not result.passed)


@dataclass(frozen=True)
class EndpointCost:
    """The monthly cost of one endpoint; prices are None where the environment file has none."""

    endpoint: str
    machines: tuple[str, ...]
    """One line per variant."""
    least: float | None
    most: float | None
    now: float | None = None
    """With the current number of instances; None if it was not read."""


@dataclass(frozen=True)
class DeployChanges:
    """What a deploy of an environment would change."""

    models: tuple[str, ...]
    stacks: tuple[tuple[str, tuple[str, ...]], ...]
    """Description and details of each stack that changes."""
    others: tuple[str, ...]
    rejected: bool

    @property
    def changes_nothing(self) -> bool:
        """Return whether a deploy changes neither models nor stacks."""
        return not (self.models or self.stacks or self.others)


@dataclass(frozen=True)
class ReportedEnvironment:
    """One environment."""

    name: str
    account: str = ""
    region: str = ""
    release: str = ""
    owner: str = ""
    protected: bool = False
    advisories: tuple[Advisory, ...] = ()
    models: Mapping[str, tuple[LockedModel, ...]] = field(default_factory=dict)
    gates: PromotionGates | None = None
    costs: tuple[EndpointCost, ...] = ()
    status: EnvironmentStatus | None = None
    """None if it was not read."""
    unread: str = ""
    """Why its deployed state was not read; empty if it was."""
    changes: DeployChanges | None = None
    rollouts: tuple[PastRollout, ...] = ()
    invalid: str = ""
    """Why its files are invalid."""


@dataclass(frozen=True)
class ReportedModel:
    """One model, and the artifact of its present files."""

    name: str
    description: str
    precision: str
    digest: str | None = None
    manifest: Manifest | None = None
    steps: tuple[GraphStep, ...] = ()
    worst_example: str = ""
    """The test input with the lowest cosine, in one line."""
    load_tests: tuple[Event, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    """Environment -> why its events, and so its load tests, were not read."""


def _to_the_second(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _names(items: Iterable[ReportedEnvironment | ReportedModel]) -> tuple[str, ...]:
    return tuple(item.name for item in items)


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows."""

    project: str
    at: Annotated[datetime, Shown(_to_the_second)]
    version: Internal[str]
    commit: str | None
    environments: Annotated[tuple[ReportedEnvironment, ...], Shown(_names)]
    models: Annotated[tuple[ReportedModel, ...], Shown(_names)]
    timeline: Internal[tuple[tuple[str, HistoryEntry], ...]]
    """What happened to the artifact of a model."""
    missing: tuple[MissingData, ...] = ()
    """Data that could not be read, and why."""
