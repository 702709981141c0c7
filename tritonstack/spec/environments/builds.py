"""`builds` of an environment's file: where and how its models are built in the account."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.documents import Fault, Record, closest, refuse
from tritonstack.reference.hardware import FAMILIES, INSTANCE_TYPES, InstanceType
from tritonstack.spec.endpoints.serving import RetentionDays

CpuSize = Literal["medium", "large", "xlarge", "2xlarge"]

_GPUS = {family.hardware for family in FAMILIES.values() if family.gpu and family.runs_triton}


def runs_processing_jobs(instance: InstanceType) -> bool:
    """Whether SageMaker Processing has a GPU machine; it has neither p4d nor the large p5."""
    families = ("p2", "p3", "g4dn", "g5", "g6", "g6e", "g7", "g7e")
    return instance.family.name in families or instance.name == "ml.p5.4xlarge"


def _check_capability(text: str) -> str:
    if text not in _GPUS:
        raise ValueError(f"{text!r} is no kind of GPU; choose one of {', '.join(sorted(_GPUS))}")
    return text


def _check_fleet(text: str) -> str:
    if not re.fullmatch(
        r"arn:aws[a-z-]*:codebuild:[a-z0-9-]+:[0-9]{12}:fleet/[A-Za-z0-9_-]+(:[0-9a-f-]+)?", text
    ):
        raise ValueError(
            f"{text!r} is not the ARN of a fleet; it reads like "
            "arn:aws:codebuild:eu-west-1:111111111111:fleet/name:0a1b2c3d-..."
        )
    return text


def _check_processing(text: str) -> str:
    known = [name for name, instance in INSTANCE_TYPES.items() if runs_processing_jobs(instance)]
    if text not in known:
        suggestion = closest(text, known)
        raise ValueError(
            f"SageMaker Processing has no GPU machine {text!r}; "
            + (
                f"did you mean '{suggestion}'?"
                if suggestion
                else "it has p2 p3 g4dn g5 g6 g6e g7 g7e p5.4xlarge"
            )
        )
    return text


def _check_secret(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9/_+=.@-]{1,512}", text):
        raise ValueError(
            f"{text!r} is not the name of a secret; write its name in Secrets Manager, not its ARN"
        )
    return text


GpuKind = Annotated[str, AfterValidator(_check_capability)]
"""A compute capability as targets write it."""


class GpuMachine(Record):
    """What builds for one kind of GPU; one of the three."""

    fleet: Annotated[str, AfterValidator(_check_fleet)] | None = None
    """A reserved-capacity fleet of CodeBuild with such GPUs, by its ARN."""
    instance_type: Annotated[str, AfterValidator(_check_processing)] | None = None
    """A machine of SageMaker Processing."""
    by_hand: Literal[True] | None = None
    """A machine of yours: there `tritonstack build --local` builds."""

    @model_validator(mode="after")
    def _one_of_three(self) -> GpuMachine:
        if sum(value is not None for value in (self.fleet, self.instance_type, self.by_hand)) != 1:
            raise ValueError(
                "a GPU is built for in one place; give one of `fleet`, `instance_type`, `by_hand`"
            )
        return self


class BuildOptions(Record):
    """How an environment's models are built."""

    enabled: bool | None = None
    """Whether builds run in the account; otherwise they run where `tritonstack build` does. If not
    given, they run in the account, but for the embedded cloud's, which needs a Docker engine for images."""
    cpu_size: CpuSize = "large"
    """CodeBuild's machine for models without a GPU: 4, 8, 36 or 72 processors, 8, 16, 72 or 144 GiB."""
    machines: Mapping[GpuKind, GpuMachine] = Field(default_factory=dict)
    """What builds for a kind of GPU (sm75, sm89, ...), where it is to be something else than usual."""
    timeout_minutes: Annotated[int, Field(ge=5, le=2160)] = 120
    """After how long a build is given up."""
    concurrent: Annotated[int, Field(ge=1, le=100)] | None = None
    """Most builds that run at once per kind of machine; if not given, the account's CodeBuild quota limits
    them. A number above that quota makes CodeBuild reject the build stack."""
    hugging_face_token_secret: Annotated[str, AfterValidator(_check_secret)] | None = None
    """Name of the secret in Secrets Manager whose text is a token for models that are gated or private."""
    log_retention_days: RetentionDays = 90
    """How long what builds say is kept."""

    @model_validator(mode="after")
    def _machines_have_their_gpu(self) -> BuildOptions:
        refuse(
            Fault(
                ("machines", capability, "instance_type"),
                f"{machine.instance_type} has a GPU of another kind than {capability}",
                f"choose one with compute capability {capability[2:-1]}.{capability[-1]}",
            )
            for capability, machine in self.machines.items()
            if machine.instance_type and INSTANCE_TYPES[machine.instance_type].family.hardware != capability
        )
        return self
