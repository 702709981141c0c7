"""Service quotas that an environment needs at peak load, so that they can be requested in advance.

A low quota shows up late: an update fails after an hour, or scaling stops silently. Quota increases take AWS
days. tritonstack.operate.deploy.preflight compares them with the account's.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tritonstack.base import naming
from tritonstack.files.endpoint.endpoint import EndpointSpec, Variant
from tritonstack.files.endpoint.rollouts import Rolling
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.project.build_machines import (
    IMAGE_BUILD_SIZE,
    CodeBuildMachine,
    ProcessingMachine,
    build_machine_for,
)

SAGEMAKER = "sagemaker"
CODEBUILD = "codebuild"
VPC = "vpc"
APPLICATION_AUTO_SCALING = "application-autoscaling"

INTERFACE_ENDPOINTS = 3
"""Per new network: two for ECR, one for logs."""


@dataclass(frozen=True)
class Quota:
    """A quota: AWS's name, the required value, and the reasons."""

    service: str
    """Service code of `aws service-quotas`."""
    name: str
    value: int
    """What the peak needs, updates included."""
    reasons: tuple[str, ...]
    least: int = 0
    """What the endpoints without a stack need; with less, their first deployment fails."""


def needed_quotas(spec: EnvironmentSpec, *, deployed: Collection[str] = ()) -> tuple[Quota, ...]:
    """Return all quotas of the account and region that an environment counts against.

    `deployed` names its stacks that exist.
    """
    return (
        *_instances(spec, deployed),
        *_scalable_targets(spec, deployed),
        *_builds(spec),
        *_network(spec, deployed),
    )


def most_machines(endpoint: EndpointSpec, variant: Variant) -> tuple[int, str]:
    """Return the maximum instance count of a variant, updates included, and its explanation.

    A rolling update adds one batch of instances; all other strategies add a second fleet.
    """
    if endpoint.components:
        # SageMaker places the copies of a rolling update within the instance limits.
        most = variant.scaling.max_instances
        return most, f"{most} instances"
    most, rollout = variant.scaling.highest, endpoint.planned_rollout
    if isinstance(rollout, Rolling):
        batch = math.ceil(most * rollout.batch_percent / 100)
        return most + batch, f"{most} instances, and {batch} more during an update"
    return 2 * most, f"{most} instances, doubled during an update"


def _instances(spec: EnvironmentSpec, deployed: Collection[str]) -> Iterator[Quota]:
    reasons: dict[str, list[str]] = defaultdict(list)
    peaks: Counter[str] = Counter()
    starts: Counter[str] = Counter()
    for name, endpoint in spec.endpoints.items():
        for variant in endpoint.variants:
            most, formula = most_machines(endpoint, variant)
            label = name if len(endpoint.variants) == 1 else f"{name}, {variant.name}"
            instance = variant.instance.name
            reasons[instance].append(f"{label}: {formula}")
            peaks[instance] += most
            if naming.endpoint_stack_name(spec.base, name) not in deployed:
                starts[instance] += variant.scaling.first_instances
    for instance in sorted(reasons):
        name = f"{instance} for endpoint usage"
        yield Quota(SAGEMAKER, name, peaks[instance], tuple(reasons[instance]), starts[instance])
    if reasons:
        yield Quota(
            SAGEMAKER,
            "Number of instances across active endpoints",
            peaks.total(),
            ("all endpoints combined",),
            starts.total(),
        )


def _scalable_targets(spec: EnvironmentSpec, deployed: Collection[str]) -> Iterator[Quota]:
    scaled = [
        name
        for name, endpoint in spec.endpoints.items()
        for variant in endpoint.variants
        if endpoint.components or variant.scaling.varies
    ]
    if scaled:
        count = len(scaled)
        new = [name for name in scaled if naming.endpoint_stack_name(spec.base, name) not in deployed]
        reasons = (f"one per scaled variant of {', '.join(dict.fromkeys(scaled))}",)
        yield Quota(APPLICATION_AUTO_SCALING, "Scalable targets for SageMaker", count, reasons, len(new))


def _builds(spec: EnvironmentSpec) -> Iterator[Quota]:
    """Yield quotas of build machines; new accounts may run one build at a time, and none with a GPU."""
    models: dict[tuple[str, str], set[str]] = defaultdict(set)
    for endpoint in spec.endpoints.values():
        for variant in endpoint.variants:
            build_machine = build_machine_for(spec, variant.instance)
            served = (variant.model,) if variant.model else endpoint.models
            if isinstance(build_machine, ProcessingMachine):
                models[SAGEMAKER, f"{build_machine.instance_type} for processing job usage"].update(served)
            elif isinstance(build_machine, CodeBuildMachine) and build_machine.fleet is None:
                models[CODEBUILD, _codebuild_quota(build_machine.compute_type, gpu=build_machine.gpu)].update(
                    served
                )
    if not models:
        return
    # Its build runs before those of models, never concurrently.
    image = _codebuild_quota(IMAGE_BUILD_SIZE, gpu=False)
    if (CODEBUILD, image) not in models:
        yield Quota(CODEBUILD, image, 1, ("the build of the build image",))
    for (service, name), names in sorted(models.items()):
        most = min(len(names), spec.builds.concurrent or len(names))
        less = ("with a lower quota, builds run one after another",) if most > 1 else ()
        yield Quota(service, name, most, (f"builds of {', '.join(sorted(names))}", *less))


_SIZES = {"SMALL": "Small", "MEDIUM": "Medium", "LARGE": "Large", "XLARGE": "XLarge", "2XLARGE": "2XLarge"}


def _codebuild_quota(compute_type: str, *, gpu: bool) -> str:
    """Return the name of a machine type's quota, as in the CodeBuild user guide."""
    size = _SIZES[compute_type.removeprefix("BUILD_GENERAL1_")]
    return f"Concurrently running builds for Linux{' GPU ' if gpu else '/'}{size} environment"


def _network(spec: EnvironmentSpec, deployed: Collection[str]) -> Iterator[Quota]:
    if spec.network is None or spec.network.create is None:
        return
    reasons = (f"the network of {spec.name}",)
    new = int(naming.network_stack_name(spec.base) not in deployed)
    yield Quota(VPC, "VPCs per Region", 1, reasons, new)
    interfaces = INTERFACE_ENDPOINTS
    yield Quota(VPC, "Interface VPC endpoints per VPC", interfaces, reasons, new * interfaces)
    yield Quota(VPC, "Gateway VPC endpoints per Region", 1, reasons, new)
