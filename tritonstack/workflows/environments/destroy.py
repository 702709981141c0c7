"""Destroy an environment, with or without its file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tritonstack.base.errors import UsageError
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.deploying.cdk import InterruptedDeployError
from tritonstack.operations.destruction.destroy import (
    Destroyed,
    DestructionPreview,
    destroy_environment,
    preview_destruction,
)
from tritonstack.operations.destruction.protection import ProtectedError, needs_its_name, require_unprotected
from tritonstack.operations.stacks import environment_stacks
from tritonstack.workflows.environments.deployed import (
    DeployedEnvironment,
    LocationFilter,
    find_deployed,
    require_unprotected_file,
)
from tritonstack.workflows.session import Session

__all__ = [
    "Destroyed",
    "Destruction",
    "DestructionPlan",
    "destroy",
    "jobs_text",
    "name_required",
    "plan_destruction",
]


@dataclass(frozen=True)
class DestructionPlan:
    """The resources that `destroy` would delete."""

    target: DeployedEnvironment
    foreseen: DestructionPreview
    needs_name: bool
    """True if the environment keeps data or was ever protected: `destroy` then needs its name."""
    rejected: ProtectedError | None
    """Why `destroy` rejects this plan: the environment is protected."""

    @property
    def is_empty(self) -> bool:
        """True if `destroy` would neither stop nor delete anything."""
        found = self.foreseen
        stopped = found.builds or found.jobs
        emptied = found.buckets or found.repositories or found.keys
        return not (stopped or found.layers or emptied or found.log_groups or found.replaced)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        preview = self.foreseen
        return {
            "environment": self.target.name,
            "dry_run": True,
            "running_builds": [asdict(build) for build in preview.builds],
            "ended_jobs": list(preview.jobs),
            "stacks": preview.stacks,
            "buckets": list(preview.buckets),
            "repositories": list(preview.repositories),
            "keys": list(preview.keys),
            "log_groups": list(preview.log_groups),
            "replaced": list(preview.replaced),
            "retained": [asdict(item) for item in preview.retained],
            "requires_name": self.needs_name,
            "rejected": self._rejection(),
        }

    def _rejection(self) -> dict[str, Any] | None:
        if self.rejected is None:
            return None
        return {"code": self.rejected.code, "message": self.rejected.message, "remedy": self.rejected.remedy}


@dataclass(frozen=True)
class Destruction:
    """A finished destruction."""

    target: DeployedEnvironment
    destroyed: Destroyed

    def to_json(self) -> dict[str, Any]:
        """Return the destruction as JSON data."""
        destroyed = self.destroyed
        return {
            "environment": self.target.name,
            "stopped_builds": [asdict(build) for build in destroyed.builds],
            "deleted_jobs": list(destroyed.jobs),
            "deleted_stacks": list(destroyed.stacks),
            "deleted_log_groups": list(destroyed.log_groups),
            "deleted_replaced": list(destroyed.replaced),
            "retained": [asdict(item) for item in destroyed.retained],
        }


def plan_destruction(
    session: Session,
    environment: str,
    *,
    instance: str | None = None,
    where: LocationFilter | None = None,
    dry_run: bool = False,
) -> DestructionPlan:
    """List what a destruction would delete. Changes nothing.

    Raises ProtectedError if the environment is protected. With `dry_run`, returns a plan that `destroy`
    rejects.
    """
    where = where or LocationFilter()
    if not dry_run:
        require_unprotected_file(session.project, environment, instance, where)
    checkout = Checkout(session.project.root)
    with session.reporter.step(f"listing what exists of {instance or environment}"):
        target = find_deployed(session, environment, instance, where)
        rejected = _rejection(target, checkout)
        if rejected and not dry_run:
            raise rejected
        preview = preview_destruction(target.cloud, target.base)
    needs_name = needs_its_name(
        target.spec, file=target.file, keeps_data=bool(preview.retained), checkout=checkout
    )
    return DestructionPlan(target, preview, needs_name, rejected)


def _rejection(target: DeployedEnvironment, checkout: Checkout) -> ProtectedError | None:
    """Return why an environment must not be destroyed."""
    stacks = environment_stacks(target.cloud, target.base)
    try:
        require_unprotected(target.name, spec=target.spec, file=target.file, stacks=stacks, checkout=checkout)
    except ProtectedError as error:
        return error
    return None


def destroy(session: Session, plan: DestructionPlan, *, confirm: str | None = None) -> Destruction:
    """Delete all that the plan lists. If `plan.needs_name`, `confirm` must be the environment's name.

    Raises `plan.rejected` if the environment is protected. It can be stopped at any time; planned and run
    again, it resumes.
    """
    target = plan.target
    if plan.rejected:
        raise plan.rejected
    if plan.needs_name and confirm != target.name:
        raise name_required(target.name, confirm)
    try:
        with session.reporter.step(f"destroying {target.name}") as step:
            destroyed = destroy_environment(target.cloud, target.base, on_update=step.log)
            step.detail = _detail(destroyed)
    except KeyboardInterrupt:
        raise InterruptedDeployError(
            "interrupted; CloudFormation finishes the running deletions",
            remedy=f"run `tritonstack destroy {target.cli_arguments}` to wait and resume",
            code="TS906",
        ) from None
    return Destruction(target, destroyed)


def name_required(name: str, confirm: str | None) -> UsageError:
    """Return the error for a destruction whose environment was not confirmed by name."""
    return UsageError(
        f"{name} retains data or was protected, so destroying it requires its name"
        + (f"; got {confirm!r}" if confirm not in (None, name) else ""),
        remedy=f"type it when prompted, or pass --yes --confirm {name}",
        code="TS905",
    )


def jobs_text(count: int) -> str:
    """Return a count of ended Processing jobs as text."""
    return "1 ended Processing job" if count == 1 else f"{count} ended Processing jobs"


def _detail(destroyed: Destroyed) -> str:
    count, builds, jobs = len(destroyed.stacks), len(destroyed.builds), len(destroyed.jobs)
    text = f"{count} {'stack' if count == 1 else 'stacks'} deleted" if count else "no stacks remained"
    text += f", {builds} {'build' if builds == 1 else 'builds'} stopped" if builds else ""
    text += f", {jobs_text(jobs)} deleted" if jobs else ""
    replaced = len(destroyed.replaced)
    return text + (f", {replaced} replaced configurations and models deleted" if replaced else "")
