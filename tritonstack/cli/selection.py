"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_deployable, complete_endpoint, complete_model

EnvironmentArgument = Annotated[
    str, typer.Argument(help="The environment.", autocompletion=complete_deployable)
]
EndpointArgument = Annotated[
    str,
    typer.Argument(
        help="The endpoint, by its name in the environment file.", autocompletion=complete_endpoint
    ),
]
ModelArgument = Annotated[
    str | None, typer.Argument(help="The model (default: the only one).", autocompletion=complete_model)
]
ModelsArgument = Annotated[
    list[str] | None, typer.Argument(help="Models (default: all it serves).", autocompletion=complete_model)
]
TextsArgument = Annotated[list[str] | None, typer.Argument(help="Texts; by default the model's test inputs.")]
NameOption = Annotated[
    str | None,
    typer.Option("--name", help="The instance's name, if the environment is a template.", metavar="NAME"),
]
AccountOption = Annotated[
    str | None, typer.Option("--account", help="Its account, if its file no longer exists.")
]
RegionOption = Annotated[
    str | None, typer.Option("--region", help="Its region, if its file no longer exists.")
]
PrefixOption = Annotated[
    str | None, typer.Option("--prefix", help="Its name_prefix, if its file no longer exists.")
]
BootstrapOption = Annotated[
    bool, typer.Option("--bootstrap", help="Run `cdk bootstrap` first if the account needs it.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(help="The model, on an endpoint that serves several.", autocompletion=complete_model),
]
InputsOption = Annotated[
    list[str] | None, typer.Option("--input", "-i", help="An input, as for invoke.", metavar="NAME=VALUE")
]
DataOption = Annotated[
    Path | None, typer.Option(help="An .npz or .json file with inputs by name.", metavar="FILE")
]
PlotOption = Annotated[Path | None, typer.Option(help="Draw the result as SVG.", metavar="FILE")]
SeedOption = Annotated[int, typer.Option(min=0, help="Start of the random numbers.", metavar="NUMBER")]
