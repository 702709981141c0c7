"""Variants of an endpoint: main, challenger, and shadow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from tritonstack.base.naming import Name
from tritonstack.base.yaml import Record, suggest
from tritonstack.facts.hardware import INSTANCE_TYPES, InstanceType
from tritonstack.files.endpoint.scaling import Scaling

MAIN = "main"
CHALLENGER = "challenger"
SHADOW = "shadow"
"""Variant names. Do not rename them: rollouts and scaling refer to them."""


def _check_instance_type(text: str) -> str:
    if text not in INSTANCE_TYPES:
        remedy = suggest(text, INSTANCE_TYPES, "write one such as ml.c7i.xlarge")
        raise ValueError(f"unknown instance type {text!r}; {remedy}")
    family = INSTANCE_TYPES[text].family
    if not family.runs_triton:
        hardware = (
            "Arm processors" if family.architecture == "arm64" else f"{family.accelerator} accelerators"
        )
        raise ValueError(
            f"{text} has {hardware}, but SageMaker's Triton images support x86-64 CPUs and NVIDIA GPUs; "
            "choose a type such as ml.c7i.xlarge or ml.g5.xlarge"
        )
    return text


InstanceTypeName = Annotated[str, AfterValidator(_check_instance_type)]


class SecondVariant(Record):
    """A second variant: another model, or the same model on another instance type."""

    model: Name | None = None
    """The model in models/ to serve; default: the endpoint's."""
    instance_type: InstanceTypeName | None = None
    """SageMaker instance type; default: the endpoint's."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the requests: answered (challenger) or copied (shadow)."""
    scaling: Scaling | None = None
    """Instance counts; default: the endpoint's."""


@dataclass(frozen=True)
class Variant:
    """One variant of an endpoint, with inherited values filled in; `model` is None on multi-model
    endpoints."""

    name: str
    model: str | None
    instance: InstanceType
    scaling: Scaling
    weight: float
    shadow: bool = False
