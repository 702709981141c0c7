"""`tritonstack build`: build, verify, publish, and lock the artifacts that an environment needs."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer
from rich.text import Text

from tritonstack.base.errors import shown_path
from tritonstack.base.files import short_digest
from tritonstack.base.revisions import commit_commands
from tritonstack.cli.completion import complete_environment
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.tables import MARKS, Column, FittedTable
from tritonstack.cli.selection import ModelsArgument
from tritonstack.files.records.manifests import Manifest
from tritonstack.operate.build.build import build as run
from tritonstack.operate.build.outcomes import Outcome
from tritonstack.operate.build.planning import plan_build
from tritonstack.operate.shared.local_cloud import deploy_commands

_COLUMNS = (
    Column(""),
    Column("model"),
    Column("artifact"),
    Column("target", least_width=80),
    Column("state"),
    Column("size", "right", least_width=85),
    Column("accuracy"),
    Column("p50 by batch", least_width=90),
)


def build(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="The environment to build for.", autocompletion=complete_environment)
    ],
    models: ModelsArgument = None,
    upload: Annotated[
        bool, typer.Option("--publish/--no-publish", help="Upload to the environment's artifact bucket.")
    ] = True,
    local: Annotated[
        bool, typer.Option("--local", help="Build on this machine, not in the environment's account.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what would be built where and why; build nothing.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Parallel builds on this machine.")
    ] = None,
    expose: Annotated[
        bool,
        typer.Option("--expose", help="Allow Triton on every network interface if it cannot be isolated."),
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Start the jobs in the account without waiting for them.")
    ] = False,
) -> None:
    """Build what an environment's lock lacks, check it against the framework, and write the lock.

    Builds run in the environment's account. Ctrl-C stops following them; they continue, and the same command
    attaches to them again. With --local or --no-publish, they run on this machine; so do builds for the
    local cloud unless the environment's file has `builds: {enabled: true}`.

    Example: tritonstack build local --no-publish
    """
    state: Context = context.obj
    if explain:
        plan = plan_build(state, environment, models or (), local=local or not upload)
        text = "\n".join(
            [*(entry.summary for entry in plan.images), *(entry.text for entry in plan.artifacts)]
        )
        state.output.result(plan, text=text or "the environment serves no models")
        options = [*(["--local"] if local else []), *([] if upload else ["--no-publish"])]
        state.output.suggest(shlex.join(["tritonstack", "build", environment, *(models or ()), *options]))
        return
    result = run(
        state,
        environment,
        models or (),
        publish=upload,
        local=local,
        at_once=jobs,
        wait=not no_wait,
        expose=expose,
    )
    table = FittedTable(_COLUMNS, [_row(outcome) for outcome in result.outcomes])
    state.output.result(result, text=table if result.outcomes else "no artifacts were built")
    project = state.project
    folders = (project.models_dir, project.environments_dir, project.containers_dir)
    files = [shown_path(folder) for folder in folders if folder.exists()]
    commit = commit_commands(result.built.commit, files, message=f"Build for {environment}")
    state.output.suggest(*(commit if result.changed else ()), *deploy_commands(project, result.workspace))


def _row(outcome: Outcome) -> list[str | Text]:
    manifest, locked = outcome.manifest, outcome.needed.locked
    digest = manifest.digest if manifest else locked.digest if locked else ""
    model = Text(manifest.model if manifest else outcome.needed.model, "bold")
    target = manifest.target if manifest else outcome.needed.target
    state = "up to date" if outcome.reused or manifest is None else "built"
    if outcome.needed.is_rolled_back:
        state = "rolled back"
    row: list[str | Text] = [MARKS["good"], model, short_digest(digest), target, state]
    if manifest is None:
        return [*row, "", "", ""]
    latency = ", ".join(f"{report.batch}: {report.p50_ms:.1f} ms" for report in manifest.latency)
    return [*row, f"{manifest.archive_bytes / 1e6:.1f} MB", _proof(outcome, manifest), latency]


def _proof(outcome: Outcome, manifest: Manifest) -> str:
    if manifest.generation is not None:
        return f"{manifest.generation.cases} texts with identical answers in {manifest.generation.times} runs"
    if manifest.unverified:
        return f"unverified ({outcome.unverified_reason})"
    worst = min(report.min_cosine for report in manifest.parity)
    return f"cosine ≥ {worst:.6f}"
