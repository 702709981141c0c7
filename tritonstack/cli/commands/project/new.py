"""`tritonstack new`: add a model, an endpoint, or an environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tritonstack.base.errors import shown_path
from tritonstack.cli.completion import complete_environment, complete_model, complete_recipe
from tritonstack.cli.context import Context
from tritonstack.cli.help_text import HelpfulCommand
from tritonstack.operate.shared import new_files
from tritonstack.operate.shared.new_files import NewFiles

new = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Add a commented file that `tritonstack validate` accepts. Existing files are never replaced.",
)


@new.command("model", short_help="Add a model", cls=HelpfulCommand)
def model(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new model.")],
    recipe: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="How to convert the model, for example text-embedding, onnx, or python.",
            autocompletion=complete_recipe,
        ),
    ],
    source: Annotated[
        str | None, typer.Option(help="Where the weights come from: hf://, s3://, or package://.")
    ] = None,
    copy: Annotated[
        Path | None, typer.Option("--from", help="Copy this file or folder into the model as its source.")
    ] = None,
    steps: Annotated[
        list[str] | None,
        typer.Option(
            "--step", help="A model of the ensemble; repeat in order.", autocompletion=complete_model
        ),
    ] = None,
) -> None:
    """Create models/NAME with a commented model.yaml, and code if the recipe runs yours.

    Replace the test inputs with what your users send: builds compare answers to them.

    Example: tritonstack new model search --recipe text-embedding --source hf://<org>/<name>@<commit>

    Example: tritonstack new model double --recipe python
    """
    state: Context = context.obj
    files = new_files.new_model(
        state.project, name, recipe=recipe, source=source, copy=copy, members=tuple(steps or ())
    )
    adding = new_files.endpoint_command(state.project, name)
    if recipe == "vllm":
        adding = f"add an image with Triton's vLLM backend to containers/; then {adding} --image FOLDER"
    _report(state, files, f"next: edit test_inputs in models/{name}/model.yaml; then {adding}")


@new.command("endpoint", short_help="Add an endpoint to an environment", cls=HelpfulCommand)
def endpoint(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new endpoint.")],
    environment: Annotated[str, typer.Option(help="The environment.", autocompletion=complete_environment)],
    models: Annotated[
        list[str],
        typer.Option(
            "--model",
            help="The model to serve; several become a multi-model endpoint.",
            autocompletion=complete_model,
        ),
    ],
    instance_type: Annotated[
        str | None,
        typer.Option(
            help="SageMaker instance type; default: a small one that runs the model.", show_default=False
        ),
    ] = None,
    image: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="The folder of containers/ with its image.")
    ] = None,
) -> None:
    """Add an endpoint to environments/ENVIRONMENT.yaml. Comments in the file are kept.

    Example: tritonstack new endpoint search --environment dev --model minilm
    """
    state: Context = context.obj
    files = new_files.new_endpoint(
        state.project, name, environment=environment, models=models, instance_type=instance_type, image=image
    )
    _report(state, files, f"next: {files.next_command}")


@new.command("environment", short_help="Add an environment", cls=HelpfulCommand)
def environment(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new environment.")],
    account: Annotated[str, typer.Option(help="The AWS account: 12 digits.")],
    region: Annotated[str, typer.Option(help="The AWS region.")],
    promote_from: Annotated[
        str | None,
        typer.Option(help="The environment that promotes to it.", autocompletion=complete_environment),
    ] = None,
) -> None:
    """Create environments/NAME.yaml without endpoints.

    To deliver changes to it, add it to delivery.yaml and to the workflows that name environments.

    Example: tritonstack new environment prod --account 222222222222 --region eu-west-1 --promote-from dev
    """
    state: Context = context.obj
    files = new_files.new_environment(
        state.project, name, account=account, region=region, promote_from=promote_from
    )
    _report(state, files, f"next: tritonstack new endpoint NAME --environment {name} --model MODEL")


def _report(state: Context, files: NewFiles, following: str) -> None:
    written = ", ".join(shown_path(file) for file in files.files)
    state.output.result(files, text=f"wrote {written}; {following}")
