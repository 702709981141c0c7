"""One endpoint of an environment: what it serves, on what, and how it scales, updates and alarms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from catalog.documents import Record, closest
from catalog.hardware import INSTANCE_TYPES, InstanceType
from catalog.naming import Name
from catalog.rollouts import AllAtOnce, Canary, Linear, Rolling, Rollout
from catalog.scaling import DEFAULT_BACKLOG_PER_INSTANCE, DEFAULT_INVOCATIONS_PER_INSTANCE, Scaling

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


class Alarms(Record):
    """What wakes somebody up. Each is silent while nobody calls; `null` leaves one out."""

    latency_p99_ms: Annotated[float, Field(gt=0)] | None = 500
    """99th percentile of the model's latency over five minutes."""
    overhead_p99_ms: Annotated[float, Field(gt=0)] | None = 500
    """99th percentile of what SageMaker adds to it, over five minutes."""
    server_errors: Annotated[int, Field(ge=1)] | None = 5
    """Invocations answered with 5xx in five minutes."""
    client_errors: Annotated[int, Field(ge=1)] | None = 50
    """Invocations answered with 4xx in five minutes."""
    min_invocations: Annotated[int, Field(ge=1)] | None = None
    """Invocations in five minutes below which callers are missed, while there are any at all."""
    gpu_memory_percent: Annotated[float, Field(gt=0, le=100)] | None = 95
    """GPU memory in use, averaged over a machine's GPUs; on GPU machines only."""
    triton_errors: Annotated[int, Field(ge=1)] | None = 10
    """Errors that Triton itself logs in five minutes."""
    backlog: Annotated[int, Field(ge=1)] | None = None
    """Requests that wait for an asynchronous endpoint."""


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


MAIN = "main"
CHALLENGER = "challenger"
SHADOW = "shadow"
"""The names of variants. Never renamed: rollouts and scaling refer to them."""


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
    data_capture: DataCapture | None = None
    """Keep a sample of requests and answers."""
    asynchronous: Asynchronous | None = None
    """Take requests into a queue instead of answering them at once."""
    components: Components | None = None
    """Serve by inference components, which can scale to zero."""
    log_retention_days: Annotated[int, AfterValidator(_check_retention)] = 30
    """How long CloudWatch keeps the container's log."""
    startup_timeout_s: Annotated[int, Field(ge=60, le=3600)] | None = None
    """How long a container may take until it is healthy; follows from the artifact's size if not given."""
    download_timeout_s: Annotated[int, Field(ge=60, le=3600)] | None = None
    """How long fetching and unpacking the artifact may take; follows from its size if not given."""
    inference_ami: InferenceAmi | None = None
    """The host's image, and with it its NVIDIA driver; one that fits the Triton release if not given."""
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


@dataclass(frozen=True)
class Variant:
    """One variant of an endpoint, everything inherited filled in; `model` is None on multi-model ones."""

    name: str
    model: str | None
    instance: InstanceType
    scaling: Scaling
    weight: float
    shadow: bool = False


class SingleEndpoint(ServingOptions):
    """An endpoint that serves one model to every caller. Its name is its key in the environment's file."""

    kind: Literal["single", "ensemble"]
    """single: one Triton model; ensemble: a pipeline of Triton models behind one entry model."""
    model: Name
    """The model in models/ that it serves."""
    instance_type: InstanceTypeName
    """SageMaker instance type."""
    challenger: SecondVariant | None = None
    """A second production variant, which answers its share of the requests."""
    shadow: SecondVariant | None = None
    """A variant that gets copies of its share of the requests; its answers are dropped."""

    @property
    def instance(self) -> InstanceType:
        """The machine behind the instance type."""
        return INSTANCE_TYPES[self.instance_type]

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that it serves, each once."""
        return tuple(dict.fromkeys(variant.model for variant in self.variants if variant.model))

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Its variants, the main one first."""
        share = self.challenger.share if self.challenger else 0.0
        main = Variant(MAIN, self.model, self.instance, self.scaling, 1.0 - share)
        others = ((CHALLENGER, self.challenger), (SHADOW, self.shadow))
        return (main, *(self._beside(name, second) for name, second in others if second))

    def _beside(self, name: str, second: SecondVariant) -> Variant:
        return Variant(
            name=name,
            model=second.model or self.model,
            instance=INSTANCE_TYPES[second.instance_type] if second.instance_type else self.instance,
            scaling=second.scaling or self.scaling,
            weight=second.share,
            shadow=name == SHADOW,
        )


class MultiModelEndpoint(ServingOptions):
    """An endpoint whose callers say which of its models they mean. Its name is its key in the file."""

    kind: Literal["multi-model"]
    """multi-model: models are loaded when they are first called for."""
    models: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
    """The models in models/ that it serves; single ones and ensembles alike."""
    instance_type: InstanceTypeName
    """SageMaker instance type."""
    model_cache: bool = True
    """Keep models loaded between requests; off, each request loads its model anew."""

    @property
    def instance(self) -> InstanceType:
        """The machine behind the instance type."""
        return INSTANCE_TYPES[self.instance_type]

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Its one variant."""
        return (Variant(MAIN, None, self.instance, self.scaling, 1.0),)

    @model_validator(mode="after")
    def _distinct_models(self) -> MultiModelEndpoint:
        twice = sorted({name for name in self.models if self.models.count(name) > 1})
        if twice:
            raise ValueError(f"models: {', '.join(twice)} stands twice; keep one of each")
        return self


EndpointSpec = Annotated[SingleEndpoint | MultiModelEndpoint, Field(discriminator="kind")]
"""One endpoint, of whatever kind."""
