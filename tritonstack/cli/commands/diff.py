"""`tritonstack diff`: what a deploy would change, the CDK's own words and then in plain ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from tritonstack.base import naming
from tritonstack.base.errors import InvalidFilesError
from tritonstack.cli.context import Context
from tritonstack.cli.diff_text import DeployOutlook, outlook_comment, outlook_text
from tritonstack.cli.selection import NameOption
from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Assembly
from tritonstack.operations.deploying.cdk_changes import resource_fates
from tritonstack.operations.deploying.changes import cdk_diff, look_ahead
from tritonstack.operations.deploying.lock_changes import (
    artifact_changes,
    deployed_digests,
    deployed_lock,
    image_changes,
)
from tritonstack.operations.events import latest_events, latest_of_each
from tritonstack.operations.model_prefix import missing_copies, shelf_copies
from tritonstack.project.checks.compatibility import unbuilt
from tritonstack.project.workspace import Workspace
from tritonstack.workflows.deployment.synthesis import cdk_of, synthesized


def diff(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to compare.")],
    name: NameOption = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a comment for a pull request.")] = False,
) -> None:
    """Compare an environment's files with what is deployed, and say what a deploy would do. Changes nothing.

    First the CDK's own diff, stack by stack; then in plain words which models change, which endpoints roll
    out and how, which need two phases, what is replaced, and what would be refused. Exit code 1 if anything
    would be refused.

    Example: tritonstack diff prod
    """
    state: Context = context.obj
    workspace = state.workspace(environment, name)
    if problems := unbuilt(workspace):
        raise InvalidFilesError(problems)
    cloud = state.cloud(workspace.spec)
    cdk = cdk_of(workspace, cloud)
    with (
        synthesized(state, cdk) as assembly,
        state.output.step("comparing with what is deployed"),
    ):
        outlook = look_at_deploy(workspace, cloud, assembly, cdk_diff(cdk, assembly))
        text = outlook_comment(outlook) if markdown else outlook_text(outlook)
    state.output.result(outlook.facts(), text=text)
    if outlook.refused:
        raise typer.Exit(1)


def look_at_deploy(
    workspace: Workspace, cloud: Cloud, assembly: Assembly, cdk_lines: Sequence[str]
) -> DeployOutlook:
    """All that can be told of a deploy before it is made."""
    spec = workspace.spec
    changes = look_ahead(cloud, spec.base, assembly)
    wanted = {stack: assembly.template(stack) for stack in assembly.stacks}
    latest = latest_of_each(latest_events(cloud, spec.artifact_bucket, "deployed"), spec.endpoints)
    before = deployed_lock(workspace, latest)
    standing = {
        name: changes.deployed[stack]
        for name in spec.endpoints
        if (stack := naming.endpoint_stack_name(spec.base, name)) in changes.deployed
    }
    return DeployOutlook(
        workspace=workspace,
        changes=changes,
        fates=resource_fates(cdk_lines, changes.deployed, wanted),
        shelves=_missing_models(workspace, cloud),
        artifacts=artifact_changes(workspace, before, deployed_digests(workspace, latest, standing)),
        images=image_changes(workspace, before),
        cdk_lines=cdk_lines,
    )


def _missing_models(workspace: Workspace, cloud: Cloud) -> Mapping[str, list[str]]:
    """The models that a deploy puts on each multi-model endpoint's shelf."""
    bucket, copies = workspace.spec.artifact_bucket, shelf_copies(workspace)
    missing: dict[str, list[str]] = defaultdict(list)
    for copy in missing_copies(cloud, bucket=bucket, copies=copies):
        missing[copy.endpoint].append(copy.model)
    return missing
