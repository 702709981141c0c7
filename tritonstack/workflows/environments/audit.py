"""List the resources of environments and the stack that each belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import model_serializer

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError
from tritonstack.operations.audit.report import Item, Report, UnlistedService
from tritonstack.operations.audit.report import audit as look
from tritonstack.operations.audit.resources import AuditScope
from tritonstack.operations.aws import Cloud
from tritonstack.project.names import environment_names
from tritonstack.workflows.environments.deployed import (
    DeployedEnvironment,
    Location,
    LocationFilter,
    find_deployed,
    require_locations,
)
from tritonstack.workflows.session import Session

__all__ = ["Audit", "Item", "Report", "audit"]


@dataclass(frozen=True)
class Audit:
    """The audit of one environment, or of every location of the project."""

    reports: Mapping[str, Report]
    """By environment name, or by location."""

    @property
    def clean(self) -> bool:
        """True if every resource belongs to a stack and every service answered."""
        return not any(report.orphans or report.not_listed for report in self.reports.values())

    @property
    def gone(self) -> bool:
        """True if nothing is left, except resources that await their deletion."""
        return self.clean and not any(report.resources for report in self.reports.values())

    @model_serializer
    def _by_subject(self) -> dict[str, Report]:
        return dict(self.reports)


def audit(
    session: Session,
    environment: str | None = None,
    *,
    instance: str | None = None,
    where: LocationFilter | None = None,
) -> Audit:
    """Audit an environment, or an instance of a template; all locations of the project by default."""
    where = where or LocationFilter()
    if environment is None:
        return Audit(_everywhere(session, require_locations(session.project, where)))
    deployed = find_deployed(session, environment, instance, where)
    report = _audit(session, deployed.cloud, _scope(deployed), _others(session, deployed))
    return Audit({deployed.name: report})


def _everywhere(session: Session, locations: Sequence[Location]) -> dict[str, Report]:
    """Return a report per location; one that is unreachable gets a report without any service."""
    reports, errors = dict[str, Report](), list[TritonstackError]()
    for location in locations:
        place = f"{location.prefix} in {location.account} {location.region}"
        subject = f"what begins with {location.prefix!r}"
        try:
            cloud = session.cloud_at(location.account, location.region, subject=subject)
        except TritonstackError as error:
            errors.append(error)
            reports[place] = Report((), (UnlistedService("every service", error.message),))
        else:
            scope = AuditScope(location.prefix, {"project": location.prefix}, whole=True)
            reports[place] = _audit(session, cloud, scope)
    if len(errors) == len(locations):
        raise errors[0]
    return reports


def _audit(session: Session, cloud: Cloud, scope: AuditScope, others: Iterable[str] = ()) -> Report:
    place = f"{cloud.account} {cloud.region}"
    with session.reporter.step(f"listing the resources of {scope.base} in {place}") as step:
        report = look(cloud, scope, others=others)
        step.detail = f"{len(report.resources)} resources"
    return report


def _scope(deployed: DeployedEnvironment) -> AuditScope:
    prefix = deployed.base.removesuffix(f"-{deployed.name}")
    usual = {"project": prefix, "environment": deployed.name}
    tags = deployed.spec.tags if deployed.spec else {}
    return AuditScope(deployed.base, {key: tags.get(key, value) for key, value in usual.items()})


def _others(session: Session, deployed: DeployedEnvironment) -> list[str]:
    prefix = deployed.base.removesuffix(f"-{deployed.name}")
    names = [name for name in environment_names(session.project) if name != deployed.name]
    return [naming.environment_prefix(prefix=prefix, environment=name) for name in names]
