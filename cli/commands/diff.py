"""`tritonstack diff`: what a deploy would change, and what SageMaker would do about it."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.errors import InvalidFilesError
from catalog.fitness import unbuilt
from catalog.workspace import Workspace
from cli.context import Context
from cli.selection import NameOption
from operations.assembly import Assembly
from operations.aws import Cloud
from operations.cdk import CdkCli, find_cdk
from operations.changes import Changes, leftover_words, look_ahead
from operations.shelf import missing_copies, shelf_copies

_LISTED = 5


def diff(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to compare.")],
    name: NameOption = None,
) -> None:
    """Compare an environment's files with what is deployed, and say what a deploy would do. Changes nothing.

    First the CDK's own diff, stack by stack; then in plain words which endpoints roll out and how, which need
    two phases, and what SageMaker would refuse. Exit code 1 if it would refuse something.

    Example: tritonstack diff prod
    """
    state: Context = context.obj
    workspace = state.workspace(environment, name)
    if problems := unbuilt(workspace):
        raise InvalidFilesError(problems)
    cloud = state.cloud(workspace.spec)
    cdk = find_cdk(
        state.project.root,
        environment_name=environment,
        context=workspace.context,
        variables=cloud.process_environment(),
    )
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as folder:
        with state.output.step("synthesising the stacks") as step:
            cdk.run("synth", "--quiet", "--output", folder, on_line=step.update)
        assembly = Assembly(Path(folder))
        with state.output.step("comparing with what is deployed") as step:
            lines = _cdk_diff(cdk, assembly)
            changes = look_ahead(cloud, workspace.spec.base, assembly)
            shelves = _missing_models(workspace, cloud)
    state.output.result(
        _facts(workspace, changes, shelves, lines),
        text="\n".join([*lines, "", *_words(workspace, changes, shelves)]),
    )
    if changes.refused:
        raise typer.Exit(1)


def _cdk_diff(cdk: CdkCli, assembly: Assembly) -> list[str]:
    lines: list[str] = []
    # By the templates alone: a change set is something that is made in the account.
    cdk.run("diff", "--method=template", assembly=assembly.folder, on_line=lines.append)
    return lines


def _missing_models(workspace: Workspace, cloud: Cloud) -> Mapping[str, list[str]]:
    """The models that a deploy puts on each multi-model endpoint's shelf."""
    bucket, copies = workspace.spec.artifact_bucket, shelf_copies(workspace)
    missing: dict[str, list[str]] = defaultdict(list)
    for copy in missing_copies(cloud, bucket=bucket, copies=copies):
        missing[copy.endpoint].append(copy.model)
    return missing


def _facts(
    workspace: Workspace, changes: Changes, shelves: Mapping[str, list[str]], lines: Sequence[str]
) -> dict[str, Any]:
    return {
        "environment": workspace.spec.name,
        "stacks": [plan.facts() for plan in changes.plans],
        "shelves": dict(shelves),
        "leftovers": list(changes.leftovers),
        "refused": bool(changes.refused),
        "diff": "\n".join(lines),
    }


def _words(workspace: Workspace, changes: Changes, shelves: Mapping[str, list[str]]) -> list[str]:
    name = workspace.spec.name
    words = [f"What `tritonstack deploy {name}` does:"]
    for plan in changes.plans:
        words.append(f"  {plan.words}")
        words += [f"    {line}" for line in plan.details]
    words += [f"  {stack}: {leftover_words(stack)}" for stack in changes.leftovers]
    for endpoint, models in shelves.items():
        shown = ", ".join(models[:_LISTED]) + (" and more" if len(models) > _LISTED else "")
        go = "1 model goes" if len(models) == 1 else f"{len(models)} models go"
        words.append(f"  {endpoint}: {go} on its shelf, without a change of stack: {shown}")
    if changes.two_phase:
        words.append(
            "SageMaker refuses `cdk deploy` what needs two phases; "
            f"`tritonstack deploy {name}` goes through both."
        )
    if changes.refused:
        words.append(f"`tritonstack deploy {name}` refuses this before it changes anything.")
    return words
