"""Options that all kinds of endpoints share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.naming import Name
from tritonstack.base.yaml import Record
from tritonstack.files.endpoint.rollouts import Alarms, AllAtOnce, Canary, Linear, Rolling, Rollout
from tritonstack.files.endpoint.scaling import (
    DEFAULT_BACKLOG_PER_INSTANCE,
    DEFAULT_INVOCATIONS_PER_INSTANCE,
    Scaling,
    check_limits,
)

LOG_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922),
    *(3288, 3653),
)
"""Retention periods that CloudWatch Logs supports."""


def _check_retention(days: int) -> int:
    if days not in LOG_RETENTION_DAYS:
        raise ValueError(
            f"CloudWatch Logs does not support a retention of {days} days; "
            f"choose one of {', '.join(map(str, LOG_RETENTION_DAYS))}"
        )
    return days


RetentionDays = Annotated[int, AfterValidator(_check_retention)]
"""Retention of log events."""


class DataCapture(Record):
    """Capture of requests and responses, stored encrypted."""

    sampling_percent: Annotated[int, Field(ge=1, le=100)] = 10
    """Percentage of requests to capture."""
    content: Annotated[tuple[Literal["input", "output"], ...], Field(min_length=1, max_length=2)] = (
        "input",
        "output",
    )
    """What to capture."""
    expiry_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days until captured data is deleted."""


class Asynchronous(Record):
    """Queue requests and write responses to the environment's data bucket, with a notification."""

    max_concurrent_per_instance: Annotated[int, Field(ge=1, le=1000)] = 4
    """Maximum concurrent requests per instance."""
    expiry_days: Annotated[int, Field(ge=1, le=3650)] = 7
    """Days until responses are deleted."""


class Components(Record):
    """The model as an inference component: copies scale on instances that SageMaker manages.

    The only mode in which a real-time endpoint can scale to zero.
    """

    min_copies: Annotated[int, Field(ge=0, le=1000)] = 0
    """Minimum number of copies; with 0, the first request after an idle period fails and starts a copy."""
    max_copies: Annotated[int, Field(ge=1, le=1000)] = 2
    """Maximum number of copies."""
    memory_mb: Annotated[int, Field(ge=128)]
    """Memory per copy."""
    cpus: Annotated[float, Field(ge=0.25)] | None = None
    """vCPUs per copy."""
    accelerators: Annotated[int, Field(ge=1)] | None = None
    """GPUs per copy; default: 1 on GPU instances."""
    invocations_per_copy: Annotated[int, Field(ge=1)] | None = None
    """Target requests per minute and copy. Default: 1000 if no metric is given."""
    concurrent_requests_per_copy: Annotated[float, Field(gt=0)] | None = None
    """Target concurrent requests per copy, measured every 10 seconds."""

    @model_validator(mode="after")
    def _ordered(self) -> Components:
        check_limits(self, "min_copies", "max_copies")
        return self


class EndpointMetrics(Record):
    """Additional CloudWatch metrics; each has extra cost."""

    detailed: bool = False
    """Detailed observability: metrics per container, GPU, and instance, billed by published volume."""
    enhanced: bool = False
    """Standard metrics per instance and container, billed as custom metrics."""
    publish_every_s: Literal[10, 30, 60, 120, 180, 240, 300] = 60
    """Publishing interval of utilization, enhanced, and detailed metrics."""


InferenceAmi = Literal[
    "al2-ami-sagemaker-inference-gpu-2",
    "al2-ami-sagemaker-inference-gpu-2-1",
    "al2-ami-sagemaker-inference-gpu-3-1",
    "al2023-ami-sagemaker-inference-gpu-4-1",
]


class ServingOptions(Record):
    """Options that all kinds of endpoints share."""

    scaling: Scaling = Scaling()
    """Instance counts."""
    rollout: Rollout | None = None
    """Update strategy; default: all-at-once, or rolling for inference components."""
    alarms: Alarms = Alarms()
    """Alarm thresholds."""
    metrics: EndpointMetrics = EndpointMetrics()
    """Additional CloudWatch metrics."""
    data_capture: DataCapture | None = None
    """Capture a sample of requests and responses."""
    asynchronous: Asynchronous | None = None
    """Queue requests instead of answering them synchronously."""
    components: Components | None = None
    """Serve as an inference component, which can scale to zero."""
    log_retention_days: RetentionDays = 30
    """Retention of container logs."""
    startup_timeout_s: Annotated[int, Field(ge=60, le=3600)] | None = None
    """Time limit for the container to become healthy; default: depends on the artifact's size."""
    download_timeout_s: Annotated[int, Field(ge=60, le=3600)] | None = None
    """Time limit to download and extract the artifact; default: depends on its size."""
    inference_ami: InferenceAmi | None = None
    """Host image, which determines the NVIDIA driver; default: one that suits the Triton release."""
    image: Name | None = None
    """Folder of containers/ with the image to run; default: SageMaker's Triton image."""
    network_isolation: bool = True
    """Isolate the containers from all networks."""
    environment: Mapping[str, str] = Field(default_factory=dict)
    """Extra environment variables of the containers. Do not store secrets here."""

    @property
    def scales_to_zero(self) -> bool:
        """Whether an endpoint of this mode can scale to zero."""
        return self.asynchronous is not None or self.components is not None

    @property
    def planned_rollout(self) -> AllAtOnce | Canary | Linear | Rolling:
        """The rollout, or the default."""
        if self.rollout is not None:
            return self.rollout
        return Rolling(strategy="rolling") if self.components else AllAtOnce()

    @property
    def measures(self) -> Mapping[str, float]:
        """The target-tracking metrics of the instances, with the default if no metric or step is given."""
        values = {name: float(getattr(self.scaling, name)) for name in self.scaling.measures}
        if values or self.scaling.steps or self.components:
            return values
        if self.asynchronous:
            return {"backlog_per_instance": DEFAULT_BACKLOG_PER_INSTANCE}
        return {"invocations_per_instance": DEFAULT_INVOCATIONS_PER_INSTANCE}
