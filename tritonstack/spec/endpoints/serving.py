"""How an endpoint runs, whatever it serves: the options that every kind has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.documents import Record
from tritonstack.base.naming import Name
from tritonstack.spec.endpoints.alarms import Alarms
from tritonstack.spec.endpoints.rollouts import AllAtOnce, Canary, Linear, Rolling, Rollout
from tritonstack.spec.endpoints.scaling import (
    DEFAULT_BACKLOG_PER_INSTANCE,
    DEFAULT_INVOCATIONS_PER_INSTANCE,
    Scaling,
)

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


def _check_retention(days: int) -> int:
    if days not in LOG_RETENTION_DAYS:
        raise ValueError(
            f"CloudWatch Logs does not keep logs for {days} days; "
            f"choose one of {', '.join(map(str, LOG_RETENTION_DAYS))}"
        )
    return days


RetentionDays = Annotated[int, AfterValidator(_check_retention)]
"""How long CloudWatch keeps what a log says."""


class DataCapture(Record):
    """Requests and answers that are kept, encrypted, for a while."""

    sampling_percent: Annotated[int, Field(ge=1, le=100)] = 10
    """How many of the requests."""
    content: Annotated[tuple[Literal["input", "output"], ...], Field(min_length=1, max_length=2)] = (
        "input",
        "output",
    )
    """What of them."""
    expiry_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """When they are deleted."""


class Asynchronous(Record):
    """Requests wait in a queue; answers come as objects in the environment's data bucket, with a message."""

    max_concurrent_per_instance: Annotated[int, Field(ge=1, le=1000)] = 4
    """Requests that one machine works at, at once."""
    expiry_days: Annotated[int, Field(ge=1, le=3650)] = 7
    """When answers are deleted."""


class Components(Record):
    """The model as an inference component: copies of it come and go on machines that SageMaker manages.

    The only way for a real-time endpoint to cost nothing while nobody calls.
    """

    min_copies: Annotated[int, Field(ge=0, le=1000)] = 0
    """Never fewer copies; with 0, the first request after a quiet time fails and wakes the endpoint up."""
    max_copies: Annotated[int, Field(ge=1, le=1000)] = 2
    """Never more."""
    memory_mb: Annotated[int, Field(ge=128)]
    """Memory that a copy needs."""
    cpus: Annotated[float, Field(ge=0.25)] | None = None
    """Processor cores that a copy needs."""
    accelerators: Annotated[int, Field(ge=1)] | None = None
    """GPUs that a copy needs; 1 on GPU machines if not given."""
    invocations_per_copy: Annotated[int, Field(ge=1)] | None = None
    """Requests a minute that one copy is meant to carry. 1000 if neither measure is given."""
    concurrent_requests_per_copy: Annotated[float, Field(gt=0)] | None = None
    """Requests in flight that one copy is meant to carry; measured every 10 seconds."""

    @model_validator(mode="after")
    def _ordered(self) -> Components:
        if self.max_copies < self.min_copies:
            raise ValueError(
                f"max_copies ({self.max_copies}) is below min_copies ({self.min_copies}); "
                "raise max_copies or lower min_copies"
            )
        return self


class EndpointMetrics(Record):
    """What SageMaker publishes in CloudWatch beside an endpoint's usual metrics; each costs extra."""

    detailed: bool = False
    """Detailed observability: metrics per container, GPU and instance, billed by the volume published."""
    enhanced: bool = False
    """Usual metrics per instance and container as well, billed as custom metrics."""
    publish_every_s: Literal[10, 30, 60, 120, 180, 240, 300] = 60
    """How often utilization, enhanced and detailed metrics are published."""


InferenceAmi = Literal[
    "al2-ami-sagemaker-inference-gpu-2",
    "al2-ami-sagemaker-inference-gpu-2-1",
    "al2-ami-sagemaker-inference-gpu-3-1",
    "al2023-ami-sagemaker-inference-gpu-4-1",
]


class ServingOptions(Record):
    """How an endpoint runs, whatever it serves."""

    scaling: Scaling = Scaling()
    """How many machines there are."""
    rollout: Rollout | None = None
    """How an update reaches it; all at once if not given, in batches for inference components."""
    alarms: Alarms = Alarms()
    """When the alarm topic hears of it."""
    metrics: EndpointMetrics = EndpointMetrics()
    """More metrics in CloudWatch."""
    data_capture: DataCapture | None = None
    """Keep a sample of requests and answers."""
    asynchronous: Asynchronous | None = None
    """Take requests into a queue instead of answering them at once."""
    components: Components | None = None
    """Serve by inference components, which can scale to zero."""
    log_retention_days: RetentionDays = 30
    """How long CloudWatch keeps the container's log."""
    startup_timeout_s: Annotated[int, Field(ge=60, le=3600)] | None = None
    """How long a container may take until it is healthy; follows from the artifact's size if not given."""
    download_timeout_s: Annotated[int, Field(ge=60, le=3600)] | None = None
    """How long fetching and unpacking the artifact may take; follows from its size if not given."""
    inference_ami: InferenceAmi | None = None
    """The host's image, and with it its NVIDIA driver; one that fits the Triton release if not given."""
    image: Name | None = None
    """A folder of containers/ whose image the containers run; SageMaker's own Triton image if not given."""
    network_isolation: bool = True
    """Cut the containers off from every network."""
    environment: Mapping[str, str] = Field(default_factory=dict)
    """More environment variables for the containers. They are no place for secrets."""

    @property
    def scales_to_zero(self) -> bool:
        """Whether an endpoint of this mode can have no machine at all."""
        return self.asynchronous is not None or self.components is not None

    @property
    def planned_rollout(self) -> AllAtOnce | Canary | Linear | Rolling:
        """The rollout, or what stands for none."""
        if self.rollout is not None:
            return self.rollout
        return Rolling(strategy="rolling") if self.components else AllAtOnce()

    @property
    def measures(self) -> Mapping[str, float]:
        """The target-tracking measures of the machines, with the default where there is none and no step."""
        given = {name: float(getattr(self.scaling, name)) for name in self.scaling.measures}
        if given or self.scaling.steps or self.components:
            return given
        if self.asynchronous:
            return {"backlog_per_instance": DEFAULT_BACKLOG_PER_INSTANCE}
        return {"invocations_per_instance": DEFAULT_INVOCATIONS_PER_INSTANCE}
