"""Read the status of environments."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import InvalidFilesError, TritonstackError, UsageError
from tritonstack.base.results import Shown, public
from tritonstack.files.loading import ProjectFiles
from tritonstack.operate.destroy.expiring import ExpiringEnvironments, ExpiryState, NotSearched, find_expiring
from tritonstack.operate.shared.aws import AWS_ERRORS
from tritonstack.operate.shared.deployed import locations
from tritonstack.operate.shared.session import Session
from tritonstack.operate.status.endpoint_status import EndpointStatus, EnvironmentStatus, environment_status

__all__ = ["EndpointStatus", "EnvironmentStatus", "Statuses", "status"]

_AT_ONCE = 4


def _states(expiring: ExpiringEnvironments | None) -> list[ExpiryState] | None:
    return None if expiring is None else [case.state for case in expiring.cases]


@dataclass(frozen=True)
class Statuses:
    """The status of environments, and the instances of templates that exist beside them."""

    environments: tuple[EnvironmentStatus, ...]
    expiring: Annotated[ExpiringEnvironments | None, Shown(_states)] = None
    """None if single environments were requested."""

    @public
    def not_searched(self) -> NotSearched:
        """The locations not searched for instances of templates, and why."""
        return dict(self.expiring.not_searched) if self.expiring else {}


def status(session: Session, environments: Sequence[str] = (), *, instance: str | None = None) -> Statuses:
    """Read the status of environments, or of an instance of one template; of all by default.

    An environment that is unreachable has `error` set and does not stop the others.
    """
    if instance is not None and len(environments) != 1:
        raise CommandLineError(
            "--name requires one template", remedy="for example status preview --name pr-123"
        )
    now = datetime.now(UTC)
    files = ProjectFiles(session.project)
    names = environments or files.environment_names
    with session.reporter.step("reading the current state"), ThreadPoolExecutor(_AT_ONCE) as pool:
        known_cloud = None
        if not environments:
            known_cloud = pool.submit(find_expiring, session, locations(session.project), now=now)
        statuses = tuple(
            pool.map(lambda environment: _one(session, files, environment, instance, now=now), names)
        )
        return Statuses(statuses, known_cloud.result() if known_cloud else None)


def _one(
    session: Session, files: ProjectFiles, name: str, instance: str | None, *, now: datetime
) -> EnvironmentStatus:
    try:
        workspace = session.workspace(name, instance, files=files)
    except TritonstackError as error:
        if isinstance(error, UsageError) and not isinstance(error, InvalidFilesError):
            raise  # an unknown name is a usage error
        return EnvironmentStatus(instance or name, error=str(error))
    spec = workspace.spec
    try:
        return environment_status(session.cloud(spec), workspace, now=now)
    except (TritonstackError, *AWS_ERRORS) as error:
        return EnvironmentStatus(spec.name, spec.account, spec.region, error=str(error))
