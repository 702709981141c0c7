"""Destroy an environment, with or without its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tritonstack.base.error_kinds import CommandInterruptedError, CommandLineError
from tritonstack.base.errors import UsageError
from tritonstack.base.results import Key, Shown
from tritonstack.operate.destroy.environment import (
    Destroyed,
    DestructionPreview,
    destroy_environment,
    preview_destruction,
)
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.deployed import (
    DeployedEnvironment,
    LocationFilter,
    ProtectedError,
    find_deployed,
    needs_its_name,
    require_unprotected,
    require_unprotected_file,
)
from tritonstack.operate.shared.session import Session
from tritonstack.operate.shared.stacks import environment_stacks


@dataclass(frozen=True)
class Rejection:
    """Why `destroy` rejects an environment."""

    code: str
    message: str
    remedy: str | None


def _name_of(target: DeployedEnvironment) -> str:
    return target.name


def _facts_of(error: ProtectedError | None) -> Rejection | None:
    return None if error is None else Rejection(error.code, error.message, error.remedy)


Target = Annotated[DeployedEnvironment, Shown(_name_of), Key("environment")]


@dataclass(frozen=True, kw_only=True)
class DestructionPlan(DestructionPreview):
    """The resources that `destroy` would delete."""

    target: Target
    dry_run: Literal[True] = True
    needs_name: Annotated[bool, Key("requires_name")]
    """True if the environment keeps data or was ever protected: `destroy` then needs its name."""
    rejected: Annotated[ProtectedError | None, Shown(_facts_of)]
    """Why `destroy` rejects this plan: the environment is protected."""

    @property
    def is_empty(self) -> bool:
        """True if `destroy` would neither stop nor delete anything."""
        stopped = self.builds or self.jobs
        emptied = self.buckets or self.repositories or self.keys
        return not (stopped or self.layers or emptied or self.log_groups or self.replaced)


@dataclass(frozen=True, kw_only=True)
class Destruction(Destroyed):
    """A finished destruction."""

    target: Target


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
    return DestructionPlan(**vars(preview), target=target, needs_name=needs_name, rejected=rejected)


def _rejection(target: DeployedEnvironment, checkout: Checkout) -> ProtectedError | None:
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
        raise CommandInterruptedError(
            "interrupted; CloudFormation finishes the running deletions",
            remedy=f"run `tritonstack destroy {target.cli_arguments}` to wait and resume",
        ) from None
    return Destruction(**vars(destroyed), target=target)


def name_required(name: str, confirm: str | None) -> UsageError:
    """Return the error for a destruction whose environment was not confirmed by name."""
    return CommandLineError(
        f"{name} retains data or was protected, so destroying it requires its name"
        + (f"; got {confirm!r}" if confirm not in (None, name) else ""),
        remedy=f"type it when prompted, or pass --yes --confirm {name}",
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
    return text + (f", {replaced} configurations and models deleted" if replaced else "")
