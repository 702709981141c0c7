"""`tritonstack down`: end the embedded cloud and everything it started."""

from __future__ import annotations

import typer

from cli.context import Context
from local_cloud.process import stop


def down(context: typer.Context) -> None:
    """End the embedded cloud, its endpoints and their Triton servers.

    Example: tritonstack down
    """
    state: Context = context.obj
    with state.output.step("ending the embedded cloud"):
        stopped = stop(state_dir=state.project.cloud_dir)
    state.output.result(
        {"stopped": stopped},
        text="the embedded cloud has ended" if stopped else "the embedded cloud was not running",
    )
