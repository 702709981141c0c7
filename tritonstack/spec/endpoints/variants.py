"""The variants of an endpoint: its own model, and what may stand beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from tritonstack.base.documents import Record, closest
from tritonstack.base.naming import Name
from tritonstack.reference.hardware import INSTANCE_TYPES, InstanceType
from tritonstack.spec.endpoints.scaling import Scaling

MAIN = "main"
CHALLENGER = "challenger"
SHADOW = "shadow"
"""The names of variants. Never renamed: rollouts and scaling refer to them."""


def _check_instance_type(text: str) -> str:
    if text not in INSTANCE_TYPES:
        suggestion = closest(text, INSTANCE_TYPES)
        raise ValueError(
            f"SageMaker has no instance type {text!r}"
            + (f"; did you mean '{suggestion}'?" if suggestion else "; types read like ml.c7i.xlarge")
        )
    family = INSTANCE_TYPES[text].family
    if not family.runs_triton:
        what = "Arm processors" if family.architecture == "arm64" else f"{family.accelerator} accelerators"
        raise ValueError(
            f"{text} has {what}, and SageMaker's Triton images are built for x86-64 CPUs and NVIDIA GPUs; "
            "choose a type such as ml.c7i.xlarge or ml.g5.xlarge"
        )
    return text


InstanceTypeName = Annotated[str, AfterValidator(_check_instance_type)]


class SecondVariant(Record):
    """Another model, or the same one on another machine, beside the endpoint's own."""

    model: Name | None = None
    """The model in models/ that it serves; the endpoint's own if not given."""
    instance_type: InstanceTypeName | None = None
    """SageMaker instance type; the endpoint's own if not given."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Its part of the requests: answered by it (challenger), or copied to it (shadow)."""
    scaling: Scaling | None = None
    """How many machines there are; as many as the endpoint's own if not given."""


@dataclass(frozen=True)
class Variant:
    """One variant of an endpoint, everything inherited filled in; `model` is None on multi-model ones."""

    name: str
    model: str | None
    instance: InstanceType
    scaling: Scaling
    weight: float
    shadow: bool = False
