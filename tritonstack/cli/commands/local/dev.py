"""`tritonstack dev`: serve a model on this machine, and again after each change of its files."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.base.errors import TritonstackError
from tritonstack.cli.completion import complete_model
from tritonstack.cli.context import Context
from tritonstack.operate.local.dev import FailedVersion, ServedVersion, VersionError
from tritonstack.operate.local.dev import dev as run


def dev(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="The model.", autocompletion=complete_model)],
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on; by default a free one.")
    ] = None,
) -> None:
    """Serve a model on this machine with a real Triton, and serve it again when its files change.

    It answers GET /ping and POST /invocations on 127.0.0.1, as its container on SageMaker does, until Ctrl-C.
    A version that cannot be built or served is reported, and the former one keeps serving. Compared with a
    build, it skips multi-model hosting, batches, concurrent requests, and latency, and packs and stores
    nothing; models of an ensemble are built completely, and reused. With --json, prints one JSON document per
    version or error.

    Example: tritonstack dev minilm-embedding --port 8080
    """
    state: Context = context.obj

    def served(version: ServedVersion) -> None:
        if state.output.as_json:
            state.output.json_lines([version])
            return
        for difference in version.differences:
            state.output.note(f"warning: differs from model.yaml: {difference}")
        state.output.note(f"version {version.number} serves at {version.url} after {version.seconds} s")
        state.output.note(f"  {version.request}")
        state.output.note("  not checked: multi-model hosting, batches, concurrency; press Ctrl-C to end")

    def failed(error: TritonstackError) -> None:
        if state.output.as_json:
            facts = VersionError(error.code, error.coded_message, error.remedy)
            state.output.json_lines([FailedVersion(facts)])
            return
        state.output.error(error)
        state.output.note("waiting for the next change of the model's files; press Ctrl-C to end")

    run(state, model, port=port or 0, on_served=served, on_error=failed)
    raise typer.Exit(1)  # as other commands that Ctrl-C ends
