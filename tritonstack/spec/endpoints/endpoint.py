"""One endpoint of an environment: what it serves, on what, and how it scales, updates and alarms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.documents import check_distinct, refuse
from tritonstack.base.naming import Name
from tritonstack.reference.hardware import INSTANCE_TYPES, InstanceType
from tritonstack.spec.endpoints.alarms import Alarms
from tritonstack.spec.endpoints.endpoint_rules import (
    RuledEndpoint,
    component_faults,
    environment_faults,
    mode_faults,
    multi_model_faults,
)
from tritonstack.spec.endpoints.rollout_rules import rollout_faults
from tritonstack.spec.endpoints.scaling_rules import scaling_faults
from tritonstack.spec.endpoints.serving import (
    LOG_RETENTION_DAYS,
    Asynchronous,
    Components,
    DataCapture,
    InferenceAmi,
    ServingOptions,
)
from tritonstack.spec.endpoints.variants import (
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

    @model_validator(mode="after")
    def _consistent(self) -> SingleEndpoint:
        _check(RuledEndpoint(self, self.variants))
        return self

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
    models: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000), AfterValidator(check_distinct)]
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
    def _consistent(self) -> MultiModelEndpoint:
        _check(RuledEndpoint(self, self.variants, multi_model=True))
        return self


EndpointSpec = Annotated[SingleEndpoint | MultiModelEndpoint, Field(discriminator="kind")]
"""One endpoint, of whatever kind."""

_RULES = (
    mode_faults,
    multi_model_faults,
    component_faults,
    scaling_faults,
    rollout_faults,
    environment_faults,
)


def _check(endpoint: RuledEndpoint) -> None:
    refuse(fault for rule in _RULES for fault in rule(endpoint))
