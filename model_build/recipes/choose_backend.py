"""Turn an exported graph into the one that Triton runs: backend, precision, and parity."""

from __future__ import annotations

from collections.abc import Sequence

from model_build.data.cases import Case
from model_build.data.context import BuildContext
from model_build.data.graphs import ExportedGraph, ServableGraph
from model_build.progress import BuildSteps
from tritonstack.files.model.model import ModelSpec


def choose_backend(
    graph: ExportedGraph, *, cases: Sequence[Case], spec: ModelSpec, context: BuildContext, steps: BuildSteps
) -> ServableGraph:
    """Convert an ONNX graph as model.yaml asks, and compare it with the framework.

    Its tensor types may differ from the exported graph's: use those of the result.
    """
    # ONNX libraries import slowly, and a reused artifact does not need them.
    if spec.format == "tensorrt":
        from model_build.engines.prepare import prepare_engines  # noqa: PLC0415

        return prepare_engines(graph, cases=cases, spec=spec, context=context, steps=steps)
    from model_build.graphs.precision import choose_precision  # noqa: PLC0415

    return choose_precision(
        graph,
        cases=cases,
        spec=spec,
        target=context.target,
        steps=steps,
        recorded=context.recorded_graph,
    )
