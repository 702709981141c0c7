"""Choose the machine that builds for an endpoint, derived from the endpoint's instance type.

cpu            CodeBuild, on demand
sm86 (A10G)    CodeBuild's small GPU machine, on demand, in regions that offer it
sm70 (V100)    CodeBuild's large GPU machine, for Triton releases that support the GPU
other GPUs     a SageMaker Processing job on the endpoint's own instance type, or one with the same GPU,
               or what `builds.machines` in the environment file names

An engine is bound to the GPU that it was built on, so other GPUs do not work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tritonstack.base import naming
from tritonstack.facts.hardware import INSTANCE_TYPES, InstanceType
from tritonstack.facts.regions import may_offer
from tritonstack.files.environment.builds import GpuMachine, runs_processing_jobs
from tritonstack.files.environment.environment import EnvironmentSpec

GPU_REGIONS = frozenset(
    {"ap-northeast-1", "ap-southeast-2", "eu-central-1", "eu-west-1", "us-east-1", "us-east-2", "us-west-2"}
)
"""Regions where CodeBuild offers GPU machines."""

ComputeType = Literal[
    "BUILD_GENERAL1_SMALL",
    "BUILD_GENERAL1_MEDIUM",
    "BUILD_GENERAL1_LARGE",
    "BUILD_GENERAL1_XLARGE",
    "BUILD_GENERAL1_2XLARGE",
]
_ON_DEMAND: dict[str, ComputeType] = {"sm86": "BUILD_GENERAL1_SMALL", "sm70": "BUILD_GENERAL1_LARGE"}
"""CodeBuild's GPU machines: one A10G, four V100."""
_CPU_SIZES: dict[str, ComputeType] = {
    "medium": "BUILD_GENERAL1_MEDIUM",
    "large": "BUILD_GENERAL1_LARGE",
    "xlarge": "BUILD_GENERAL1_XLARGE",
    "2xlarge": "BUILD_GENERAL1_2XLARGE",
}
IMAGE_BUILD_SIZE: ComputeType = "BUILD_GENERAL1_LARGE"
"""The machine that builds images."""


@dataclass(frozen=True)
class ManualBuild:
    """Not built in the account: `tritonstack build` builds on the machine it runs on."""

    hardware: str

    @property
    def description(self) -> str:
        """Description for messages."""
        return (
            "on this machine" if self.hardware == "cpu" else f"on this machine, which needs {self.hardware}"
        )


@dataclass(frozen=True)
class CodeBuildMachine:
    """A CodeBuild project."""

    hardware: str
    project: str
    compute_type: ComputeType
    fleet: str | None = None
    """ARN of a reserved-capacity fleet, which defines its machine type."""

    @property
    def gpu(self) -> bool:
        """Whether the machine has a GPU."""
        return self.hardware != "cpu"

    @property
    def description(self) -> str:
        """Description for messages."""
        fleet = f" on the fleet {self.fleet.partition(':fleet/')[2]}" if self.fleet else ""
        return f"in CodeBuild, project {self.project}{fleet}"


@dataclass(frozen=True)
class ProcessingMachine:
    """A SageMaker Processing job."""

    hardware: str
    instance_type: str

    @property
    def description(self) -> str:
        """Description for messages."""
        return f"in a SageMaker Processing job on {self.instance_type}"


BuildMachine = ManualBuild | CodeBuildMachine | ProcessingMachine


def build_machine_for(spec: EnvironmentSpec, instance: InstanceType) -> BuildMachine | None:
    """Return the build machine for an endpoint's instance type; None if there is none."""
    hardware = instance.family.hardware
    if not spec.builds_in_account:
        return ManualBuild(hardware)
    project = naming.build_project_name(spec.base, hardware)
    if hardware == "cpu":
        return CodeBuildMachine(hardware, project, _CPU_SIZES[spec.builds.cpu_size])
    machine = spec.builds.machines.get(hardware)
    if machine is not None:
        return _named(machine, hardware, project)
    if hardware in _ON_DEMAND and spec.region in GPU_REGIONS:
        return CodeBuildMachine(hardware, project, _ON_DEMAND[hardware])
    processing = _processing_type(spec, instance)
    return ProcessingMachine(hardware, processing.name) if processing else None


def list_build_machines(spec: EnvironmentSpec) -> tuple[BuildMachine, ...]:
    """Return the build machines of an environment, without duplicates."""
    machines = (
        build_machine_for(spec, variant.instance)
        for endpoint in spec.endpoints.values()
        for variant in endpoint.variants
    )
    return tuple(sorted({build_machine for build_machine in machines if build_machine is not None}, key=str))


def build_remedy(spec: EnvironmentSpec, instance: InstanceType) -> str:
    """Suggest other instance types or build machines."""
    hardware, family = instance.family.hardware, instance.family
    other = min(_built_for(spec), key=lambda other: other.vcpus, default=None)
    offer = f"choose an instance type with a build machine, such as {other.name}; or " if other else ""
    return (
        f"{offer}set a CodeBuild fleet with {family.gpu} under builds.machines.{hardware} "
        f"(`fleet: <ARN>`), or `by_hand: true` and run `tritonstack build {spec.name} --local` "
        "on a machine with that GPU"
    )


def _named(machine: GpuMachine, hardware: str, project: str) -> BuildMachine:
    if machine.fleet:
        return CodeBuildMachine(hardware, project, "BUILD_GENERAL1_LARGE", machine.fleet)
    return (
        ProcessingMachine(hardware, machine.instance_type) if machine.instance_type else ManualBuild(hardware)
    )


def _processing_type(spec: EnvironmentSpec, instance: InstanceType) -> InstanceType | None:
    """Return the instance type itself, or the smallest one with the same GPU or compute capability."""
    if runs_processing_jobs(instance):
        return instance
    # Regions that lack the endpoint's own family were rejected before.
    alike = [
        other
        for other in INSTANCE_TYPES.values()
        if other.family.hardware == instance.family.hardware
        and runs_processing_jobs(other)
        and (other.family is instance.family or may_offer(spec.region, other.family.name))
    ]
    return min(alike, key=lambda other: (other.family.gpu != instance.family.gpu, other.vcpus), default=None)


def _built_for(spec: EnvironmentSpec) -> Iterator[InstanceType]:
    """Yield single-GPU instance types with a build machine that the region and the release support."""
    least = float(spec.release.min_compute_capability)
    for instance in INSTANCE_TYPES.values():
        family = instance.family
        runs = instance.gpus == 1 and float(family.compute_capability or 0) >= least
        if runs and may_offer(spec.region, family.name) and build_machine_for(spec, instance):
            yield instance
