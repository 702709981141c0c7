"""`tritonstack rollback`: an endpoint runs again what an earlier lock names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tritonstack.base.documents import closest
from tritonstack.base.errors import InvalidFilesError, UsageError, shown_path
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.cli.verdict_text import verdict_lines
from tritonstack.operations.aws import Cloud
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.events import now
from tritonstack.operations.locks.restoring import fetch_back, is_recorded, record_rollback
from tritonstack.operations.locks.rollback import (
    RollbackPlan,
    as_planned,
    entries_to_write,
    further_back,
    plan_rollback,
)
from tritonstack.operations.locks.rollback_targets import RollbackError
from tritonstack.operations.locks.versions import LockHistory, lock_history
from tritonstack.operations.revisions import change_revision_of
from tritonstack.project.checks.compatibility import unbuilt
from tritonstack.project.loading import find_template, load_workspace, template_names
from tritonstack.project.workspace import Workspace
from tritonstack.records.lock_writing import replace_entries
from tritonstack.records.locks import RolledBack
from tritonstack.workflows.deployment.deploying import deploy_workspace
from tritonstack.workflows.verify import verify_workspace


def rollback(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment.")],
    endpoint: Annotated[str, typer.Argument(help="The endpoint, by its name in the environment file.")],
    to: Annotated[
        str | None,
        typer.Option("--to", help="A commit or a digest; by default what it served before."),
    ] = None,
    name: NameOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go back to what; change nothing.")
    ] = False,
) -> None:
    """Take an endpoint back to what an earlier lock in git names: write the lock, deploy, and verify.

    Other endpoints of the environment that serve the same model go back with it, and are named. What was
    deleted from the artifact bucket is brought back, for a month. Interrupted, the same command goes on; once
    it is done, it does nothing more. Commit the lock afterwards.

    Example: tritonstack rollback prod search --to 3f2c9d1
    """
    state: Context = context.obj
    _require_own_lock(state, environment, name)
    workspace = load_workspace(state.project, environment)
    _require_endpoint(workspace, endpoint)
    history = lock_history(state.project, environment)
    plan = plan_rollback(workspace, endpoint, history, to=to)
    for step in plan.edited:
        state.output.note(
            f"the entry of {step.slot.name} for {step.now.key} in {shown_path(workspace.lock.file)} was "
            "edited by hand since it was written: that goes, too"
        )
    if dry_run:
        _check(workspace, plan)
        _report(state, plan, "would go back", changed=False)
        return
    cloud = state.cloud(workspace.spec)
    if plan.written and is_recorded(cloud, workspace, plan.written):
        _tell_done(state, workspace, plan, history)
        return
    back = plan.written or _who(workspace)
    _check(workspace, plan)
    _go_back(state, workspace, cloud, plan, back)
    file = shown_path(workspace.lock.file)
    state.output.note(f"commit {file}: it says what {environment} runs from now on")
    _report(state, plan, "went back", changed=True)


def _go_back(
    state: Context, workspace: Workspace, cloud: Cloud, plan: RollbackPlan, back: RolledBack
) -> None:
    """Every step may be repeated: whoever is interrupted runs the same command again."""
    for step in plan.steps:
        if fetch_back(cloud, workspace, step, state.project.artifacts_dir):
            state.output.note(f"{step.words}: it had been deleted, and was brought back")
    if plan.written is None:
        artifacts, images = entries_to_write(workspace, plan, back)
        replace_entries(workspace.lock.file, artifacts=artifacts, images=images)
        state.output.note(f"{shown_path(workspace.lock.file)} written")
    written = load_workspace(workspace.project, workspace.spec.name)
    deploy_workspace(state, written, cloud, bootstrap=False, only=plan.concerned)
    verdict = verify_workspace(state, written, cloud, endpoints=plan.concerned)
    if not verdict.passed:
        state.output.note("\n".join(verdict_lines(verdict)))
        raise RollbackError(
            f"{plan.endpoint} has gone back, but what runs is not what the lock asks for",
            remedy="mend what stands above, and run the same command again: it goes on from here",
        )
    record_rollback(cloud, written, plan, back)


def _check(workspace: Workspace, plan: RollbackPlan) -> None:
    """Refuse what could not be deployed, before anything is written."""
    after = workspace if plan.written else as_planned(workspace, plan, _who(workspace))
    if problems := unbuilt(after, *plan.concerned):
        raise InvalidFilesError(problems)


def _who(workspace: Workspace) -> RolledBack:
    checkout, revision = Checkout(workspace.project.root), change_revision_of(workspace)
    return RolledBack(
        instead_of="",
        as_of="",
        by=checkout.actor(),
        at=now(),
        commit=revision.text,
        uncommitted=revision.recorded,
    )


def _require_own_lock(state: Context, environment: str, name: str | None) -> None:
    """Refuse instances of templates: they run another environment's lock, which others run as well.

    A rollback of one would either take that lock back for all who run it, or be undone by the instance's next
    deploy.
    """
    if name is None and environment not in template_names(state.project):
        return
    lender = find_template(state.project, environment).head.locks
    raise UsageError(
        f"instances of {environment} have no lock of their own to go back in: they run that of {lender}",
        remedy=f"go back in {lender} (`tritonstack rollback {lender}`), or check out the lock that it had "
        f"(`git checkout <commit> -- {shown_path(state.project.lock_file(lender))}`); then run "
        f"`tritonstack deploy {environment} --name {name or '<name>'}`",
    )


def _require_endpoint(workspace: Workspace, endpoint: str) -> None:
    spec = workspace.spec
    if endpoint not in spec.endpoints:
        suggestion = closest(endpoint, spec.endpoints)
        raise UsageError(
            f"environment {spec.name!r} has no endpoint {endpoint!r}",
            remedy=f"did you mean '{suggestion}'?" if suggestion else f"it has: {', '.join(spec.endpoints)}",
        )


def _tell_done(state: Context, workspace: Workspace, plan: RollbackPlan, history: LockHistory) -> None:
    further = further_back(workspace, plan.endpoint, history)
    state.output.note(
        f"{plan.endpoint} has gone back already, and nothing has changed since"
        + (f"; to go further back: --to {further}" if further else "")
    )
    _report(state, plan, "went back", changed=False)


def _report(state: Context, plan: RollbackPlan, verb: str, *, changed: bool) -> None:
    state.output.result(_facts(plan, changed=changed), text="\n".join(_lines(plan, verb)))


def _lines(plan: RollbackPlan, verb: str) -> Sequence[str]:
    lines = [f"{plan.endpoint} {verb} to {plan.origin}:", *(f"  {step.words}" for step in plan.steps)]
    if plan.others:
        lines.append(f"  with it, for they serve the same: {', '.join(plan.others)}")
    return lines


def _facts(plan: RollbackPlan, *, changed: bool) -> dict[str, Any]:
    return {
        "endpoint": plan.endpoint,
        "origin": plan.origin,
        "changed": changed,
        "with_it": list(plan.others),
        "steps": [
            {
                "name": step.slot.name,
                "key": step.then.key,
                "from": step.now.entry.digest,
                "to": step.then.entry.digest,
            }
            for step in plan.steps
        ],
    }
