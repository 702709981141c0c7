"""One endpoint of an environment: what it runs, on what, and how it scales and alarms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from catalog.documents import Record, closest
from catalog.hardware import INSTANCE_TYPES, InstanceType
from catalog.naming import Name

LOG_RETENTION_DAYS = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
"""The retention periods CloudWatch Logs knows."""


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


def _check_retention(days: int) -> int:
    if days not in LOG_RETENTION_DAYS:
        raise ValueError(
            f"CloudWatch Logs does not keep logs for {days} days; "
            f"choose one of {', '.join(map(str, LOG_RETENTION_DAYS))}"
        )
    return days


InstanceTypeName = Annotated[str, AfterValidator(_check_instance_type)]


class Scaling(Record):
    """Target tracking on invocations per instance."""

    min_instances: Annotated[int, Field(ge=1, le=1000)] = 1
    """Never fewer."""
    max_instances: Annotated[int, Field(ge=1, le=1000)] = 2
    """Never more."""
    invocations_per_instance: Annotated[int, Field(ge=1)] = 1000
    """Requests a minute that one instance is meant to carry: measured capacity × a safety factor."""
    scale_out_cooldown_s: Annotated[int, Field(ge=0, le=3600)] = 60
    """Wait after adding instances."""
    scale_in_cooldown_s: Annotated[int, Field(ge=0, le=3600)] = 300
    """Wait after removing instances."""

    @model_validator(mode="after")
    def _ordered(self) -> Scaling:
        if self.max_instances < self.min_instances:
            raise ValueError(
                f"max_instances ({self.max_instances}) is below min_instances ({self.min_instances}); "
                "raise max_instances or lower min_instances"
            )
        return self


class AlarmThresholds(Record):
    """What wakes somebody up."""

    latency_p99_ms: Annotated[float, Field(gt=0)] = 500
    """99th percentile of the model's latency over five minutes."""
    server_errors: Annotated[int, Field(ge=1)] = 5
    """Invocations answered with 5xx in five minutes."""
    client_errors: Annotated[int, Field(ge=1)] = 50
    """Invocations answered with 4xx in five minutes."""


class EndpointSpec(Record):
    """One endpoint. Its name is its key in the environment's file."""

    kind: Literal["ensemble"]
    """ensemble: a pipeline of Triton models behind one entry model."""
    model: Name
    """The model in models/ that it serves."""
    instance_type: InstanceTypeName
    """SageMaker instance type."""
    scaling: Scaling = Scaling()
    """How many instances there are."""
    alarms: AlarmThresholds = AlarmThresholds()
    """When the alarm topic hears of it."""
    log_retention_days: Annotated[int, AfterValidator(_check_retention)] = 30
    """How long CloudWatch keeps the container's log."""
    startup_timeout_s: Annotated[int, Field(ge=60, le=3600)] = 600
    """How long a container may take until it is healthy."""
    download_timeout_s: Annotated[int, Field(ge=60, le=3600)] = 600
    """How long fetching and unpacking the artifact may take."""

    @property
    def instance(self) -> InstanceType:
        """The machine behind the instance type."""
        return INSTANCE_TYPES[self.instance_type]
