"""`tritonstack import`: add a model that was built elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_environment
from tritonstack.cli.context import Context
from tritonstack.operate.artifacts.importing import ImportOptions, ImportResult, import_model
from tritonstack.operate.shared.new_files import endpoint_command


def import_(
    context: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(
            help="Triton repository, one of its models, model.tar.gz, Merlin export, or MLflow model."
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="The new model (default: the name of the imported one).")
    ] = None,
    entry: Annotated[
        str | None, typer.Option("--model", help="The model to import from a repository with several.")
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(help="Test inputs: an .npz file; arrays outputs/NAME hold expected outputs."),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(help="Add an endpoint to this environment.", autocompletion=complete_environment),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(help="Triton release of the endpoint (default: that of --environment, or the newest)."),
    ] = None,
    trust_pickle: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Why the model's pickles are safe; written to model.yaml."),
    ] = None,
) -> None:
    """Copy a model into models/NAME, with a model.yaml that `tritonstack build` accepts.

    Checks the model against what Triton on SageMaker accepts, as `tritonstack doctor PATH` does. Errors stop
    the import, and nothing is written. A model with warnings loads, but may not behave as expected.
    Configurations stay as they are; a Merlin export becomes an ensemble.

    Without --inputs, test inputs are random: builds show that the model answers, not that it answers right.

    Example: tritonstack import model.tar.gz --name ranker --environment local
    """
    state: Context = context.obj
    options = ImportOptions(name, entry, inputs, environment, release, trust_pickle=trust_pickle)
    result = import_model(state, path, options)
    following = result.next_command or endpoint_command(state.project, result.name)
    state.output.result(result, text="\n".join([*_lines(result), f"next: {following}"]))


def _lines(result: ImportResult) -> list[str]:
    return [
        *(f"{finding.severity}: {finding.coded()}" for finding in result.findings),
        *(f"changed: {change}" for change in result.changes),
        f"imported a {result.kind} as models/{result.name}: {len(result.files)} files",
    ]
