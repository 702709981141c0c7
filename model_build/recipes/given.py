"""Shared parts of recipes for user-supplied models: the repository, the cases, and summaries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model_build.checking.sizes import SizedCase
from model_build.data.cases import Case
from model_build.data.context import BuildContext, WrittenRepository
from model_build.data.graphs import ServableGraph
from model_build.progress import BuildSteps
from model_build.repository.existing import tensors_of_triton
from model_build.repository.parts import ModelProperties, add_graph_model
from tritonstack.records.manifests import TensorSpec
from tritonstack.reference.targets import Target

Array = NDArray[Any]


def write_graph(
    servable: ServableGraph,
    cases: Sequence[Case],
    context: BuildContext,
    steps: BuildSteps,
    *,
    unverified: tuple[str, ...] = (),
) -> WrittenRepository:
    """Write the repository of a model that is one graph."""
    spec = context.model.record
    filled_in = tensors_of_triton(context.model)
    asked = served_cases(cases, (*servable.inputs, *servable.outputs), filled_in)
    repository = context.folder / "repository"
    steps.run(
        "repository",
        lambda: add_graph_model(
            repository,
            name=spec.name,
            graph=servable,
            batching=spec.batching,
            triton=spec.triton,
            target=context.target,
            around=ModelProperties(model=context.model, example=asked[0].inputs),
        ),
        lambda _: f"{spec.name}, backend {servable.backend}",
    )
    return WrittenRepository(
        folder=repository,
        entry=spec.name,
        target=Target(context.target.hardware),
        inputs=served_tensors(servable.inputs, filled_in),
        outputs=served_tensors(servable.outputs, filled_in),
        parity=(servable.parity,),
        cases=asked,
        precision=servable.precision,
        tensorrt=servable.tensorrt,
        candidates=servable.candidates,
        unverified=unverified,
    )


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

    return [replace(case, inputs=served(case.inputs), expected=served(case.expected)) for case in cases]


def describe_sizes(sized: Sequence[SizedCase]) -> str:
    """Describe the sizes tried besides those of the test inputs."""
    tried: dict[str, list[int]] = {}
    for one in sized:
        tried.setdefault(one.axis.title, []).append(one.size)
    axes = (f"{axis}: {', '.join(map(str, sizes))}" for axis, sizes in tried.items())
    return "; ".join(axes) or "only the batch dimension varies"


def describe_cases(cases: Sequence[Case]) -> str:
    """Count the requests."""
    return f"{len(cases)} test inputs" if len(cases) > 1 else "1 test input"
