"""Shared parts of recipes for user-supplied models, and the choice of a graph's backend."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from model_build.checking.parity import Answer
from model_build.checking.sizes import SizedCase
from model_build.data import Array, BuildContext, Case, ExportedGraph, ServableGraph, WrittenRepository
from model_build.environments.packing import target_python
from model_build.layouts.layout import ENCODER
from model_build.layouts.prepared import Preparation
from model_build.progress import BuildSteps
from model_build.repository.existing import tensors_of_triton
from model_build.repository.parts import ModelProperties, add_graph_model
from tritonstack.base.error_kinds import UntrustedPickleError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.manifests import EnvironmentReport, TensorSpec


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


def untrusted_pickle(model: Document[ModelSpec], file: str, *, otherwise: str) -> FileViolation:
    """Return the violation of a recipe whose file is a pickle that no reason allows."""
    return model.violation(
        UntrustedPickleError,
        ("recipe", "file"),
        f"{file} is a pickle, which can run code when loaded",
        f"set `trust: {{pickle: <reason>}}`, or {otherwise}",
    )


@dataclass(frozen=True)
class GraphFront:
    """A tokenizer or image decoder in front of a graph, and the graph's own answers."""

    preparation: Preparation
    answer: Answer


def write_graph(
    servable: ServableGraph,
    cases: Sequence[Case],
    context: BuildContext,
    steps: BuildSteps,
    *,
    unverified: tuple[str, ...] = (),
    front: GraphFront | None = None,
) -> WrittenRepository:
    """Write the repository of a model that is one graph, which may have a tokenizer or decoder in front."""
    spec = context.model.record
    filled_in = tensors_of_triton(context.model)
    requests = served_cases(cases, (*servable.inputs, *servable.outputs), filled_in)
    inputs = served_tensors(servable.inputs, filled_in)
    outputs = served_tensors(servable.outputs, filled_in)
    repository = context.folder / "repository"

    def write() -> tuple[EnvironmentReport, ...]:
        reports = () if front is None else (front.preparation.write(repository, servable, outputs, context),)
        add_graph_model(
            repository,
            name=spec.name if front is None else ENCODER,
            graph=servable,
            batching=spec.batching,
            triton=spec.triton,
            target=context.target,
            properties=ModelProperties(model=context.model, example=requests[0].inputs),
        )
        return reports

    environments = steps.run(
        "repository",
        write,
        lambda _: f"{', '.join(sorted(item.name for item in repository.iterdir()))}; {servable.backend}",
    )
    if front is not None:
        inputs = (front.preparation.callers_send,)
        requests = served_cases(front.preparation.requests(cases, front.answer), servable.outputs, ())
    return WrittenRepository(
        folder=repository,
        entry=spec.name,
        target=Target(context.target.hardware, bound_python(environments, context)),
        inputs=inputs,
        outputs=outputs,
        parity=(servable.parity,),
        cases=requests,
        precision=servable.precision,
        tensorrt=servable.tensorrt,
        candidates=servable.candidates,
        environments=environments,
        unverified=unverified,
    )


def bound_python(environments: Sequence[EnvironmentReport], context: BuildContext) -> str | None:
    """Return the one Python that the artifact needs; None for any."""
    pythons = (target_python(environment, context.target.python) for environment in environments)
    return next((python for python in pythons if python is not None), None)


def served_tensors(tensors: Sequence[TensorSpec], filled_in: Collection[str]) -> tuple[TensorSpec, ...]:
    """Return the tensors that callers see, without those that Triton fills in.

    Triton requires sizes, so a tensor with one value per row has size 1.
    """
    return tuple(
        spec.model_copy(update={"shape": spec.shape or (1,)})
        for spec in tensors
        if spec.name not in filled_in
    )


def served_cases(
    cases: Sequence[Case], tensors: Sequence[TensorSpec], filled_in: Collection[str]
) -> list[Case]:
    """Return the cases in the form that callers send and receive."""
    single = {spec.name for spec in tensors if not spec.shape}

    def served(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {
            name: array[..., np.newaxis] if name in single else array
            for name, array in arrays.items()
            if name not in filled_in
        }

    return [
        replace(
            case,
            inputs=served(case.inputs),
            expected=served(case.expected),
            responses=[served(response) for response in case.responses],
        )
        for case in cases
    ]


def describe_sizes(sized: Sequence[SizedCase]) -> str:
    """Describe the sizes tried besides those of the test inputs."""
    tried: dict[str, list[int]] = {}
    for resized in sized:
        tried.setdefault(resized.axis.title, []).append(resized.size)
    axes = (f"{axis}: {', '.join(map(str, sizes))}" for axis, sizes in tried.items())
    return "; ".join(axes) or "only the batch dimension varies"


def describe_cases(cases: Sequence[Case]) -> str:
    """Count the requests."""
    return f"{len(cases)} test inputs" if len(cases) > 1 else "1 test input"
