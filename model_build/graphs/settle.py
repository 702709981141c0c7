"""From an exported graph to what Triton will run of it: precision, format, proof against the framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from catalog.manifests import ParityReport
from catalog.models import ModelSpec
from model_build.cases import Case
from model_build.graphs.records import ExportedGraph, SettledGraph
from model_build.parity import compare, describe_parity, judge
from model_build.progress import Steps
from model_build.recipes.base import Workshop

Array = NDArray[Any]


def settle_graph(
    graph: ExportedGraph, *, cases: Sequence[Case], spec: ModelSpec, workshop: Workshop, steps: Steps
) -> SettledGraph:
    """Make what the model's file asks for out of an ONNX graph, and compare it with the framework."""
    del workshop
    parity = steps.run("compare graph", lambda: _compare(graph, cases, spec), describe_parity)
    return SettledGraph(
        folder=graph.file.parent,
        backend="onnxruntime",
        precision="fp32",
        inputs=graph.inputs,
        outputs=graph.outputs,
        batches=graph.batches,
        parity=parity,
    )


def _compare(graph: ExportedGraph, cases: Sequence[Case], spec: ModelSpec) -> ParityReport:
    import onnxruntime  # noqa: PLC0415 - takes time to import, and a build that finds its artifact needs it not

    session = onnxruntime.InferenceSession(str(graph.file), providers=["CPUExecutionProvider"])
    comparisons = []
    for case in cases:
        names = list(case.expected)
        actual: Mapping[str, Array] = dict(zip(names, session.run(names, dict(case.inputs)), strict=True))
        comparisons += [
            compare(case.name, name, actual=actual[name], expected=expected)
            for name, expected in case.expected.items()
        ]
    return judge("graph", comparisons, accept=spec.accept, precision="fp32")
