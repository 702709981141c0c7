"""Time the lifecycle of an endpoint on this machine: synth, deploy, invoke, destroy.

    python -m benchmarks.lifecycle [--requests 300]

Invocations go through boto3 to the local cloud and a real Triton. The baseline in the same run is the
framework itself, called in this process with the same texts: tokenizer and torch, without a server.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import command, percentiles, seconds
from model_build.data import FrameworkFiles
from model_build.exporters.texts import TextFramework
from model_build.sources import fetch_source
from tritonstack.base.paths import Project, find_project
from tritonstack.client import EndpointClient
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import load_workspace
from tritonstack.files.model.recipes import TextEmbeddingRecipe
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.shared.aws import cloud_of
from tritonstack_local.cloud_folder import read_address

ENVIRONMENT, ENDPOINT = "local", "minilm"


def main() -> None:
    """Measure everything once and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=300, help="number of invocations")
    requests = parser.parse_args().requests
    os.environ["TRITONSTACK_CLOUD"] = "bench"
    project = find_project(Path(__file__).parent)
    workspace = load_workspace(project, ENVIRONMENT)
    rows: list[tuple[str, str]] = []
    try:
        rows += deployment(project, workspace.spec, requests)
    finally:
        command("tritonstack", "down", "--forget")
    rows += framework(project, workspace, requests)
    table = Table("what", "measured", title="endpoint lifecycle on this machine")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def deployment(project: Project, spec: EnvironmentSpec, requests: int) -> Iterator[tuple[str, str]]:
    """Measure each step of the lifecycle, in order."""
    with tempfile.TemporaryDirectory() as output:
        synth = ("cdk", "synth", "--quiet", "-c", f"env={ENVIRONMENT}", "--output", output)
        yield "cdk synth, first", seconds(lambda: command(*synth))
        yield "cdk synth, warm", seconds(lambda: command(*synth))
    command("tritonstack", "build", ENVIRONMENT, "--no-publish")
    yield "start the local cloud", seconds(lambda: command("tritonstack", "up", "--detach"))
    yield (
        "bootstrap and deploy",
        seconds(lambda: command("tritonstack", "deploy", ENVIRONMENT, "--bootstrap")),
    )
    yield "deploy again, nothing changed", seconds(lambda: command("tritonstack", "deploy", ENVIRONMENT))
    yield "invoke through boto3", percentiles(_invocation(project, spec), requests)
    yield "destroy", seconds(lambda: command("tritonstack", "destroy", ENVIRONMENT, "--yes"))


def framework(project: Project, workspace: Workspace, requests: int) -> Iterator[tuple[str, str]]:
    """Run the same texts through tokenizer and torch in this process."""
    model = workspace.models[workspace.spec.endpoints[ENDPOINT].models[0]]
    recipe = model.record.recipe
    if not isinstance(recipe, TextEmbeddingRecipe) or model.record.source is None:
        raise SystemExit(f"{model.record.name} is not a text-embedding model, which this benchmark needs")
    source = fetch_source(model.record.source, model_folder=model.file.parent, cache_dir=project.cache_dir)
    peer = TextFramework(FrameworkFiles(source.folder, recipe))
    texts = _texts(workspace)

    def embed(index: int) -> object:
        return peer.answer(peer.tokenize([texts[index % len(texts)]]))

    yield "baseline: torch in this process", percentiles(embed, requests)


def _invocation(project: Project, spec: EnvironmentSpec) -> Callable[[int], object]:
    address = read_address(project.cloud_dir())
    if address is None:
        raise SystemExit("the local cloud has stopped")
    runtime = cloud_of(spec, variables=address.environment()).client("sagemaker-runtime")
    client = EndpointClient(endpoint_name=spec.endpoint_name(ENDPOINT), runtime=runtime)
    texts = _texts(load_workspace(project, ENVIRONMENT))
    return lambda index: client.infer({"TEXT": np.array([[texts[index % len(texts)]]], dtype=object)})


def _texts(workspace: Workspace) -> tuple[str, ...]:
    return workspace.models[workspace.spec.endpoints[ENDPOINT].models[0]].record.test_texts


if __name__ == "__main__":
    main()
