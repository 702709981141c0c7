"""From an exported graph to what Triton will run of it: precision, format, proof against the framework."""

from __future__ import annotations

from collections.abc import Sequence

from model_build.checking.cases import Case
from model_build.graphs.records import ExportedGraph, SettledGraph
from model_build.progress import Steps
from model_build.recipes.base import Workshop
from tritonstack.spec.models.model import ModelSpec


def settle_graph(
    graph: ExportedGraph, *, cases: Sequence[Case], spec: ModelSpec, workshop: Workshop, steps: Steps
) -> SettledGraph:
    """Make what the model's file asks for out of an ONNX graph, and compare it with the framework.

    What it takes may have other types than the exported graph: ask the settled one.
    """
    # ONNX's libraries take time to import, and a build that finds its artifact does not need them.
    if spec.format == "tensorrt":
        from model_build.engines.settle import settle_engines  # noqa: PLC0415

        return settle_engines(graph, cases=cases, spec=spec, workshop=workshop, steps=steps)
    from model_build.graphs.precision import settle_onnx  # noqa: PLC0415

    return settle_onnx(
        graph,
        cases=cases,
        spec=spec,
        target=workshop.target,
        steps=steps,
        recorded=workshop.recorded_choice,
    )
