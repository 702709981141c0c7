"""`tritonstack snippet`: print a ready request to an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tritonstack.base.embedded_accounts import up_command
from tritonstack.cli.context import Context
from tritonstack.cli.selection import EndpointArgument, EnvironmentArgument, ModelOption, NameOption
from tritonstack.operate.invoke.snippet import snippet as run


def snippet(
    context: typer.Context,
    environment: EnvironmentArgument,
    endpoint: EndpointArgument,
    language: Annotated[
        str,
        typer.Option(
            "--language",
            "-l",
            help="curl, aws-cli, python, javascript, or java.",
            autocompletion=lambda incomplete: [
                name
                for name in ("curl", "aws-cli", "python", "javascript", "java")
                if name.startswith(incomplete)
            ],
        ),
    ] = "curl",
    model: ModelOption = None,
    variant: Annotated[str | None, typer.Option(help="The variant, main or challenger.")] = None,
    body: Annotated[
        Path | None, typer.Option(help="Write the body of the request to this file.", metavar="FILE")
    ] = None,
    name: NameOption = None,
) -> None:
    """Print a request to a deployed endpoint that can be run as it is.

    The request has the endpoint's name, region, and TargetModel, and the model's own test input. A body that
    is long, or not text, is read from a file, which --body writes.

    Example: tritonstack snippet dev minilm

    Example: tritonstack snippet dev shop --model ncf-food --language java
    """
    state: Context = context.obj
    snippets = run(
        state, environment, endpoint, language, instance=name, model=model, variant=variant, body_file=body
    )
    if body is not None:
        state.output.note(f"wrote {body}")
    if snippets.local_account is not None:
        start = up_command(snippets.local_account, "--detach", "--shell")
        state.output.note(f'first, in the same shell: eval "$({start})"')
    state.output.result(snippets, text=snippets.text.rstrip("\n"))
