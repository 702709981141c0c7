"""`tritonstack doctor`: report what is missing, or what is wrong with a Triton repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.cli.context import Context
from tritonstack.operate.project.setup import doctor as run

if TYPE_CHECKING:
    from tritonstack.operate.artifacts.repository_check import RepositoryCheck


def doctor(
    context: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(help="Triton repository to check: a folder or a model.tar.gz; default: this machine."),
    ] = None,
    release: Annotated[
        str | None, typer.Option("--release", help="Triton release of the endpoint (default: the newest).")
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", help="Instance type of the endpoint, to check GPUs.")
    ] = None,
    default_model: Annotated[
        str | None,
        typer.Option("--default-model", help="SAGEMAKER_TRITON_DEFAULT_MODEL_NAME of the endpoint."),
    ] = None,
) -> None:
    """Report what is missing and how to get it; or check a Triton repository for SageMaker.

    Without a path, checks the extras, Node, the CDK CLI, the embedded Triton server, and git. Exits with code
    1 if a part that every deployment needs is missing. Optional parts build models on this machine, run the
    local cloud, or read the git history.

    With a path, checks a Triton repository or a model.tar.gz that was built elsewhere, without a server or
    AWS. Errors keep a model from loading or answering in at least one hosting mode, and the exit code is 1.
    A model with warnings loads, but may not behave as expected.

    Example: tritonstack doctor model.tar.gz --release 26.05
    """
    state: Context = context.obj
    if path is not None:
        _check(state, path, release, instance_type, default_model)
        return
    options = {"--release": release, "--instance-type": instance_type, "--default-model": default_model}
    if names := [name for name, value in options.items() if value is not None]:
        raise CommandLineError(f"{names[0]} needs a path", remedy="for example: doctor model.tar.gz")
    installation = run(state)
    lines = [
        f"{check.state:10}{check.name}: {check.detail}"
        + (f"\n  help: {check.remedy}" if check.remedy else "")
        for check in installation.checks
    ]
    state.output.result(installation, text="\n".join(lines))
    if not installation.ok:
        raise typer.Exit(1)


def _check(
    state: Context, path: Path, release: str | None, instance_type: str | None, default_model: str | None
) -> None:
    # Imported here: it needs the extra `build`, which `doctor` without a path does not.
    from tritonstack.operate.artifacts.repository_check import check_repository  # noqa: PLC0415

    check = check_repository(
        state, path, release=release, instance_type=instance_type, default_model=default_model
    )
    lines = [f"{finding.severity}: {finding.coded()}" for finding in check.findings]
    lines.append(_summary(check))
    state.output.result(check, text="\n".join(lines))
    if check.errors:
        raise typer.Exit(1)


def _summary(check: RepositoryCheck) -> str:
    models = ", ".join(check.models) or "none"
    parts = [f"{check.path}: {check.counts}", f"models: {models}"]
    if check.entry:
        parts.append(f"endpoints load {check.entry}")
    parts += [f"single-model endpoints need {name}={value}" for name, value in check.variables.items()]
    return "; ".join(parts)
