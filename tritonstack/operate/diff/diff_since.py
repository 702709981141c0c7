"""Compare the files of an environment with those of an earlier commit, without an AWS account."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.base.revisions import short_commit
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.project.names import environment_names, template_names
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import LockChange, replace_entries
from tritonstack.files.records.locks import Lock
from tritonstack.operate.deploy.cdk_changes import resource_changes
from tritonstack.operate.deploy.changes import cdk_diff_of_templates, compare_stacks
from tritonstack.operate.deploy.preflight import require_built
from tritonstack.operate.diff.diff import DeployOutlook, artifact_changes, image_changes
from tritonstack.operate.shared.artifacts import model_copies
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.session import Session
from tritonstack.operate.synth.assembly import Assembly, Template
from tritonstack.operate.synth.cdk import CdkCli, CdkFailedError, find_cdk
from tritonstack.operate.synth.synthesis import synthesized


@dataclass(frozen=True)
class _Earlier:
    workspace: Workspace | None
    """None if the environment did not exist."""
    templates: Mapping[str, Template]
    """The stacks that a deploy of that commit creates."""

    @property
    def lock(self) -> Lock:
        return self.workspace.lock.record if self.workspace else Lock()


def diff_since(session: Session, environment: str, commit: str) -> DeployOutlook:
    """Return what a deploy of an environment would change if a commit were deployed. Makes no AWS call."""
    if environment in template_names(session.project):
        raise CommandLineError(
            f"{environment!r} is a template: only a deployed instance has stacks to compare",
            remedy=f"name an environment, or run `tritonstack diff {environment} --name INSTANCE`",
        )
    workspace = session.workspace(environment)
    require_built(workspace)
    checkout = Checkout(session.project.root)
    resolved = checkout.resolve(commit)
    cdk = find_cdk(session.project.root, environment_name=environment, variables=dict(os.environ))
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as name:
        with session.reporter.step(f"synthesizing the stacks of {short_commit(resolved)}") as step:
            folder = Path(name)
            checkout.write_files(resolved, folder)
            try:
                earlier = _read(session, environment, folder, cdk)
            except (InvalidFilesError, CdkFailedError) as error:
                raise CommandLineError(
                    f"{environment} cannot be synthesized at {short_commit(resolved)}:\n"
                    + str(error).replace(f"{folder}/", ""),
                    remedy="compare with another commit",
                ) from error
            step.detail = "" if earlier.workspace else f"{environment} did not exist"
        with synthesized(session, workspace, cdk) as assembly, session.reporter.step("comparing"):
            outlook = _compare(workspace, earlier, assembly, cdk)
    return replace(outlook, since=resolved)


def _read(session: Session, environment: str, folder: Path, cdk: CdkCli) -> _Earlier:
    session = Session(Project(folder), session.reporter)
    if environment not in environment_names(session.project):
        return _Earlier(None, {})
    workspace = _as_locked(session, session.workspace(environment))
    base = workspace.spec.base
    assembly = Assembly(folder / "cdk.out")
    # The foundation alone is selected: endpoints that were not built are errors, but not of this comparison.
    replace(cdk, project_root=folder).run(
        "synth",
        naming.foundation_stack_name(base),
        "--exclusively",
        "--quiet",
        f"--output={assembly.folder}",
        on_line=lambda _: None,
    )
    missing = {
        naming.endpoint_stack_name(base, name)
        for name in workspace.spec.endpoints
        if unbuilt(workspace, name)
    }
    return _Earlier(
        workspace, {stack: assembly.template(stack) for stack in assembly.stacks if stack not in missing}
    )


def _as_locked(session: Session, workspace: Workspace) -> Workspace:
    """Let the stacks run the artifacts that the lock names, even if the model has changed since its build.

    The folder is a copy: nothing of the project changes.
    """
    outdated = {
        (served.model, target): artifact
        for name in workspace.spec.endpoints
        for served in workspace.serves(name)
        if (target := workspace.target_for(served.model, served.instance))
        and (artifact := workspace.artifact_for(served.model, served.instance))
        and not artifact.serves_for(workspace.hashes[served.model])
    }
    replace_entries(
        workspace.lock.file,
        [
            LockChange.of(
                workspace.lock.record,
                model,
                target,
                artifact.model_copy(update={"spec_hash": workspace.hashes[model]}),
            )
            for (model, target), artifact in outdated.items()
        ],
    )
    return session.workspace(workspace.spec.name) if outdated else workspace


def _compare(workspace: Workspace, earlier: _Earlier, assembly: Assembly, cdk: CdkCli) -> DeployOutlook:
    if earlier.workspace and _location(earlier.workspace) != _location(workspace):
        earlier = _Earlier(None, {})  # the stacks and artifacts there stay, and others are created here
    new = {stack: assembly.template(stack) for stack in assembly.stacks}
    lines = cdk_diff_of_templates(cdk, assembly, earlier.templates)
    return DeployOutlook(
        workspace=workspace,
        changes=compare_stacks(assembly, earlier.templates),
        resource_changes=resource_changes(lines, earlier.templates, new),
        model_prefixes=_new_models(workspace, earlier.workspace),
        artifacts=artifact_changes(workspace, earlier.lock, _digests(earlier)),
        images=image_changes(workspace, earlier.lock),
        cdk_lines=lines,
    )


def _digests(earlier: _Earlier) -> dict[tuple[str, str], str]:
    """Return the artifacts of the endpoints that a deploy of the commit creates, by model and target."""
    workspace = earlier.workspace
    if workspace is None:
        return {}
    return {
        (served.model, target): artifact.digest
        for name in workspace.spec.endpoints
        if naming.endpoint_stack_name(workspace.spec.base, name) in earlier.templates
        for served in workspace.serves(name)
        if (target := workspace.target_for(served.model, served.instance))
        and (artifact := workspace.artifact_for(served.model, served.instance))
    }


def _location(workspace: Workspace) -> tuple[str, str]:
    return workspace.spec.account, workspace.spec.region


def _new_models(workspace: Workspace, earlier: Workspace | None) -> Mapping[str, list[str]]:
    """Return the models whose artifact a deploy would add to the prefix of each multi-model endpoint."""
    earlier_keys = {copy.key for copy in (model_copies(earlier) if earlier else ())}
    models: dict[str, list[str]] = defaultdict(list)
    for copy in model_copies(workspace):
        if copy.key not in earlier_keys:
            models[copy.endpoint].append(copy.model)
    return models
