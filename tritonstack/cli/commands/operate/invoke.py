"""`tritonstack invoke`: send inputs to an endpoint, and print the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.files import parse_json
from tritonstack.cli.context import Context
from tritonstack.cli.selection import (
    DataOption,
    EndpointArgument,
    EnvironmentArgument,
    ModelOption,
    NameOption,
    TextsArgument,
)
from tritonstack.operate.invoke.invoke import Invocation, InvokeOptions, as_text, output_file
from tritonstack.operate.invoke.invoke import invoke as run
from tritonstack.operate.invoke.request_inputs import GivenInputs


def invoke(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    environment: EnvironmentArgument,
    endpoint: EndpointArgument,
    texts: TextsArgument = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", "-i", help="An input as JSON, text, or @FILE; can be repeated.", metavar="NAME=VALUE"
        ),
    ] = None,
    data: DataOption = None,
    model: ModelOption = None,
    variant: Annotated[
        str | None, typer.Option(help="The variant, main or challenger; by default, by weight.")
    ] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Show the best label of each row.")] = False,
    top: Annotated[
        int | None, typer.Option(min=1, help="Show this many labels of each row.", metavar="COUNT")
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", help="A parameter of the request.", metavar="NAME=VALUE"),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the outputs to this .npz file.", metavar="FILE")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print a completion, or each response, when it arrives.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            min=1, help="Longest wait for the answer of an asynchronous endpoint.", metavar="SECONDS"
        ),
    ] = 900,
    name: NameOption = None,
) -> None:
    """Send inputs to an endpoint, and print each output.

    Texts go to a model with a text input. Other inputs are named: --input NAME=VALUE with JSON or a text, or
    NAME=@FILE. A file becomes what the input takes: .npy and .json are arrays, .wav becomes samples, and an
    image becomes pixels (UINT8). Any other file is sent as it is to an input of type BYTES (images, audio).
    Names, types, and shapes are checked before anything is sent. Without inputs, sends the model's test
    inputs: its texts, or the first example that its build stored.

    A decoupled model sends several responses; with --stream, each is printed as a line of JSON when it
    arrives.

    A request to an asynchronous endpoint is uploaded and queued; the command waits for the answer.

    Example: tritonstack invoke local minilm "A man is eating food." "Someone has a meal."

    Example: tritonstack invoke dev shop --model ncf-food --input user=[[7]] --input item=[[42]]

    Example: tritonstack invoke dev flowers --input IMAGE=@rose.jpg --top 3

    Example: tritonstack invoke dev writer "Once upon a time" --stream --parameter max_tokens=64
    """
    state: Context = context.obj
    file = None if save is None else output_file(save)
    options = InvokeOptions(
        inputs=GivenInputs(inputs or (), data),
        parameters=dict(map(_parameter, parameters or ())),
        top=top or (1 if labels else 0),
        timeout_s=timeout,
        on_piece=_piece_printer(state) if stream else None,
    )
    answer = run(
        state,
        environment,
        endpoint,
        texts or (),
        instance=name,
        model=model,
        variant=variant,
        options=options,
    )
    if state.output.as_json or not stream:
        state.output.result(answer, text="\n".join(_lines(answer)))
    if file is not None:
        with state.output.after_result():
            answer.save(file)
            state.output.note(f"wrote {file}")


def _piece_printer(state: Context) -> Callable[[str], None]:
    """Return what prints pieces; with --json, the result is one document at the end."""
    return (lambda _: None) if state.output.as_json else state.output.piece


def _parameter(option: str) -> tuple[str, Any]:
    name, separator, text = option.partition("=")
    if not name or not separator:
        raise CommandLineError(
            f"--parameter {option}: expected NAME=VALUE", remedy="write --parameter NAME=VALUE"
        )
    try:
        value = parse_json(text)
    except ValueError:
        return name, text
    return name, value if isinstance(value, str | int | float | bool) else text


def _lines(answer: Invocation) -> Iterator[str]:
    texts = answer.inputs if isinstance(answer.inputs, tuple) else ()
    for name, rows in answer.classes.items():
        yield f"{name}: labels"
        yield from _rows(
            [", ".join(f"{score.label} {score.value:.4f}" for score in row) for row in rows], texts
        )
    for number, response in enumerate(answer.responses, start=1):
        yield f"response {number}:"
        for name, array in response.items():
            yield f"  {name}: {array.dtype}, {_values(array)}"
    for name, array in answer.outputs.items():
        yield f"{name}: {array.dtype}, shape {list(array.shape)}"
        yield from _rows([_values(np.asarray(row)) for row in array] if texts else [_values(array)], texts)


def _rows(values: Sequence[str], texts: Sequence[str]) -> Iterator[str]:
    for index, value in enumerate(values):
        yield f"  {value}  {texts[index][:60]}" if texts else f"  {value}"


def _values(array: np.ndarray[Any, Any]) -> str:
    values = np.ravel(as_text(array))
    shown = " ".join(f"{value:8.4f}" if values.dtype.kind == "f" else str(value) for value in values[:6])
    return f"{shown}{' …' if values.size > 6 else ''}"
