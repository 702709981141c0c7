"""One endpoint of an environment: models, instance type, scaling, rollout, and alarms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.naming import Name
from tritonstack.base.yaml import check_distinct, raise_violations
from tritonstack.facts.hardware import INSTANCE_TYPES, InstanceType
from tritonstack.files.endpoint.rollouts import Alarms
from tritonstack.files.endpoint.rules import (
    RuledEndpoint,
    component_violations,
    environment_violations,
    mode_violations,
    multi_model_violations,
    rollout_violations,
    scaling_violations,
)
from tritonstack.files.endpoint.serving import (
    LOG_RETENTION_DAYS,
    Asynchronous,
    Components,
    DataCapture,
    InferenceAmi,
    ServingOptions,
)
from tritonstack.files.endpoint.variants import (
    CHALLENGER,
    MAIN,
    SHADOW,
    InstanceTypeName,
    SecondVariant,
    Variant,
)

__all__ = [
    "CHALLENGER",
    "LOG_RETENTION_DAYS",
    "MAIN",
    "SHADOW",
    "Alarms",
    "Asynchronous",
    "Components",
    "DataCapture",
    "EndpointSpec",
    "InferenceAmi",
    "InstanceTypeName",
    "MultiModelEndpoint",
    "SecondVariant",
    "ServingOptions",
    "SingleEndpoint",
    "Variant",
]


class SingleEndpoint(ServingOptions):
    """An endpoint that serves one model. Its name is its key in the environment file."""

    kind: Literal["single", "ensemble"]
    """single: one Triton model; ensemble: an ensemble of Triton models with one entry model."""
    model: Name
    """The model in models/ to serve."""
    instance_type: InstanceTypeName
    """SageMaker instance type."""
    challenger: SecondVariant | None = None
    """A second production variant that answers a share of the requests."""
    shadow: SecondVariant | None = None
    """A variant that receives copies of a share of the requests; its responses are dropped."""

    @property
    def instance(self) -> InstanceType:
        """Properties of the instance type."""
        return INSTANCE_TYPES[self.instance_type]

    @model_validator(mode="after")
    def _consistent(self) -> SingleEndpoint:
        _check(RuledEndpoint(self, self.variants))
        return self

    @property
    def models(self) -> tuple[str, ...]:
        """All its models, without duplicates."""
        return tuple(dict.fromkeys(variant.model for variant in self.variants if variant.model))

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Its variants, main first."""
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
    """An endpoint that serves many models; callers select one. Its name is its key in the environment
    file."""

    kind: Literal["multi-model"]
    """multi-model: models are loaded on first use."""
    models: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000), AfterValidator(check_distinct)]
    """The models in models/ to serve, single models and ensembles."""
    instance_type: InstanceTypeName
    """SageMaker instance type."""
    model_cache: bool = True
    """Keep models loaded between requests; otherwise each request reloads its model."""

    @property
    def instance(self) -> InstanceType:
        """Properties of the instance type."""
        return INSTANCE_TYPES[self.instance_type]

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Its only variant."""
        return (Variant(MAIN, None, self.instance, self.scaling, 1.0),)

    @model_validator(mode="after")
    def _consistent(self) -> MultiModelEndpoint:
        _check(RuledEndpoint(self, self.variants, multi_model=True))
        return self


EndpointSpec = Annotated[SingleEndpoint | MultiModelEndpoint, Field(discriminator="kind")]
"""An endpoint of any kind."""

_RULES = (
    mode_violations,
    multi_model_violations,
    component_violations,
    scaling_violations,
    rollout_violations,
    environment_violations,
)


def _check(endpoint: RuledEndpoint) -> None:
    raise_violations(violation for rule in _RULES for violation in rule(endpoint))
