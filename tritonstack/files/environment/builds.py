"""`builds` of an environment file: where and how to build models in the account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.error_kinds import InstanceTypeError
from tritonstack.base.yaml import Choice, Record, matching, raise_violations, suggest
from tritonstack.facts.hardware import FAMILIES, INSTANCE_TYPES, InstanceType
from tritonstack.files.endpoint.serving import RetentionDays

CpuSize = Literal["medium", "large", "xlarge", "2xlarge"]

_GPUS = {family.hardware for family in FAMILIES.values() if family.gpu and family.runs_triton}


def runs_processing_jobs(instance: InstanceType) -> bool:
    """Check whether SageMaker Processing offers a GPU instance type; it offers neither p4d nor the large
    p5."""
    families = ("p2", "p3", "g4dn", "g5", "g6", "g6e", "g7", "g7e")
    return instance.family.name in families or instance.name == "ml.p5.4xlarge"


def _check_capability(text: str) -> str:
    if text not in _GPUS:
        raise ValueError(f"unknown GPU architecture {text!r}; choose one of {', '.join(sorted(_GPUS))}")
    return text


def _check_processing(text: str) -> str:
    offered = [name for name, instance in INSTANCE_TYPES.items() if runs_processing_jobs(instance)]
    if text not in offered:
        raise ValueError(
            f"SageMaker Processing does not offer the GPU instance type {text!r}; "
            + suggest(text, offered, "choose p2, p3, g4dn, g5, g6, g6e, g7, g7e, or p5.4xlarge")
        )
    return text


FleetArn = Annotated[
    str,
    matching(
        r"arn:aws[a-z-]*:codebuild:[a-z0-9-]+:[0-9]{12}:fleet/[A-Za-z0-9_-]+(:[0-9a-f-]+)?",
        "invalid fleet ARN {}; write one such as "
        "arn:aws:codebuild:eu-west-1:111111111111:fleet/name:0a1b2c3d-...",
    ),
]
SecretName = Annotated[
    str,
    matching(
        r"[A-Za-z0-9/_+=.@-]{1,512}",
        "invalid secret name {}; write its name in Secrets Manager, not its ARN",
    ),
]
GpuKind = Annotated[str, AfterValidator(_check_capability)]
"""A compute capability in target form: sm86."""


class GpuMachine(Record):
    """Where to build for one GPU architecture; exactly one option."""

    alternatives: ClassVar = (Choice(("fleet", "instance_type", "by_hand")),)

    fleet: FleetArn | None = None
    """ARN of a CodeBuild reserved-capacity fleet with this GPU."""
    instance_type: Annotated[str, AfterValidator(_check_processing)] | None = None
    """A SageMaker Processing instance type."""
    by_hand: Literal[True] | None = None
    """Your own machine: run `tritonstack build --local` there."""


class BuildOptions(Record):
    """How to build an environment's models."""

    enabled: bool | None = None
    """Whether to build in the account; otherwise builds run where `tritonstack build` does. Default: in the
    account; in the local cloud on this machine, because images need Docker there."""
    cpu_size: CpuSize = "large"
    """CodeBuild machine for CPU builds: 4, 8, 36, or 72 vCPUs with 8, 16, 72, or 144 GiB."""
    machines: Mapping[GpuKind, GpuMachine] = Field(default_factory=dict)
    """Build machine per GPU architecture (sm75, sm89, ...), to override the default."""
    timeout_minutes: Annotated[int, Field(ge=5, le=2160)] = 120
    """Time limit of a build."""
    concurrent: Annotated[int, Field(ge=1, le=100)] | None = None
    """Maximum number of concurrent builds per kind of machine; by default, the account's CodeBuild quota.
    CodeBuild rejects the build stack if the number exceeds that quota."""
    hugging_face_token_secret: SecretName | None = None
    """Name of the Secrets Manager secret with a token for gated or private models."""
    log_retention_days: RetentionDays = 90
    """Retention of build logs."""

    @model_validator(mode="after")
    def _machines_have_their_gpu(self) -> BuildOptions:
        raise_violations(
            InstanceTypeError.at(
                ("machines", capability, "instance_type"),
                f"{machine.instance_type} does not have a GPU of {capability}",
                f"choose one with compute capability {capability[2:-1]}.{capability[-1]}",
            )
            for capability, machine in self.machines.items()
            if machine.instance_type and INSTANCE_TYPES[machine.instance_type].family.hardware != capability
        )
        return self
