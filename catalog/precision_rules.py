"""Whether the machines and the Triton release of an endpoint do what a model's file asks of precision."""

from __future__ import annotations

from collections.abc import Iterator

from catalog.endpoints import EndpointSpec
from catalog.errors import FileProblem
from catalog.hardware import FAMILIES
from catalog.models import ModelSpec
from catalog.tensorrt import TensorRT
from catalog.tensorrt_rules import capability_faults, tensorrt_faults
from catalog.variables import ADDITIONAL_ARGS
from catalog.workspace import ServedModel, Workspace

VERSION_COMPATIBLE = "--backend-config=tensorrt,version-compatible=true"
"""What Triton is told so that it runs the code that such an engine brings along."""


def precision_problems(
    workspace: Workspace, endpoint: EndpointSpec, served: ServedModel
) -> Iterator[FileProblem]:
    """What an endpoint's machine or release cannot do of what a model asks for; members of it too."""
    for name in _with_members(workspace, served.model):
        document = workspace.models.get(name)
        if document is None:
            continue
        yield from _processor_problems(workspace, served, document.record)
        capability = served.instance.family.compute_capability
        if document.record.format != "tensorrt" or capability is None:
            continue
        options = document.record.tensorrt or TensorRT()
        faults = [
            *tensorrt_faults(options, document.record.precision, workspace.spec.release),
            *capability_faults(options, capability),
        ]
        for fault in faults:
            yield document.problem(fault.path, fault.message, remedy=fault.remedy)
        if options.version_compatible:
            yield from _untold(workspace, endpoint, served, name)


def _processor_problems(workspace: Workspace, served: ServedModel, spec: ModelSpec) -> Iterator[FileProblem]:
    family = served.instance.family
    if spec.precision != "bf16" or family.compute_capability or family.amx:
        return
    able = ", ".join(name for name, other in FAMILIES.items() if other.amx)
    yield workspace.environment.problem(
        served.place,
        f"{spec.name!r} computes in bf16, and the processors of {served.instance.name} do not",
        remedy=f"choose one of the families {able}, or another precision",
    )


def _untold(
    workspace: Workspace, endpoint: EndpointSpec, served: ServedModel, model: str
) -> Iterator[FileProblem]:
    """An engine that brings code along is refused by Triton, unless it is told to trust such engines."""
    if VERSION_COMPATIBLE in endpoint.environment.get(ADDITIONAL_ARGS, ""):
        return
    yield workspace.environment.problem(
        served.place,
        f"the engines of {model!r} run on later TensorRT versions, and Triton refuses such unless told",
        remedy=f'add `{ADDITIONAL_ARGS}: "{VERSION_COMPATIBLE}"` to environment, or remove '
        "`version_compatible`",
    )


def _with_members(workspace: Workspace, name: str) -> Iterator[str]:
    yield name
    document = workspace.models.get(name)
    for member in document.record.members if document else ():
        yield from _with_members(workspace, member)
