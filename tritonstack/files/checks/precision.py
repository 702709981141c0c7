"""Check that an endpoint's hardware and Triton release support a model's precision."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.error_kinds import EndpointMismatchError, InstanceTypeError
from tritonstack.base.errors import FileViolation, shown_path
from tritonstack.facts.container_variables import ADDITIONAL_ARGS
from tritonstack.files.endpoint.endpoint import EndpointSpec
from tritonstack.files.model.backend_rules import capability_violations, tensorrt_violations
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tensorrt import VERSION_COMPATIBLE, TensorRT
from tritonstack.files.project.workspace import EnvironmentFiles, ServedModel


def precision_violations(
    workspace: EnvironmentFiles, endpoint: EndpointSpec, served: ServedModel
) -> Iterator[FileViolation]:
    """Yield precision options that the endpoint's hardware or release does not support, members included."""
    yield from _wrong_machine(workspace, served)
    for name in workspace.made_of(served.model):
        document = workspace.models[name]
        capability = served.instance.family.compute_capability
        if document.record.format != "tensorrt" or capability is None:
            continue
        options = document.record.tensorrt or TensorRT()
        violations = [
            *tensorrt_violations(options, document.record.precision, workspace.spec.release),
            *capability_violations(options, document.record.precision, capability),
        ]
        for violation in violations:
            yield document.place(violation)
        if options.version_compatible:
            yield from _engine_option_violations(workspace, endpoint, served, name)


def _wrong_machine(workspace: EnvironmentFiles, served: ServedModel) -> Iterator[FileViolation]:
    """Yield GPU-only models on CPU instances, and the reverse."""
    kind = "gpu" if served.instance.gpus else "cpu"
    for name in workspace.made_of(served.model):
        document = workspace.models[name]
        spec = document.record
        if kind in spec.builds_for:
            continue
        part = f"{served.model!r}" if name == served.model else f"{name!r}, a member of {served.model!r},"
        machine, other = ("no GPU", "with a GPU, such as ml.g5.xlarge")
        if kind == "gpu":
            machine, other = ("a GPU", "without a GPU, such as ml.c7i.xlarge")
        yield workspace.environment.violation(
            InstanceTypeError,
            served.place,
            f"{part} runs only on {'CPUs' if kind == 'gpu' else 'GPUs'} because of "
            f"`{_cause(spec)}`, but {served.instance.name} has {machine}",
            f"choose an instance type {other}, or change {shown_path(document.file)}",
        )


def _cause(spec: ModelSpec) -> str:
    """Return the option that determines the hardware of a model."""
    if spec.generates:
        return f"kind: {spec.recipe.kind}"
    return "format: tensorrt" if spec.format == "tensorrt" else f"precision: {spec.precision}"


def _engine_option_violations(
    workspace: EnvironmentFiles, endpoint: EndpointSpec, served: ServedModel, model: str
) -> Iterator[FileViolation]:
    """Check the option that Triton needs to load version-compatible engines."""
    if VERSION_COMPATIBLE in endpoint.environment.get(ADDITIONAL_ARGS, ""):
        return
    yield workspace.environment.violation(
        EndpointMismatchError,
        served.place,
        f"the engines of {model!r} run on later TensorRT versions, which Triton rejects by default",
        f'add `{ADDITIONAL_ARGS}: "{VERSION_COMPATIBLE}"` to environment, or remove `version_compatible`',
    )
