"""`models/<name>/model.yaml`: its fields, and the rules on several of them."""

from __future__ import annotations

from pydantic import model_validator

from tritonstack.base.yaml import raise_violations
from tritonstack.spec.models.model_fields import ModelFields
from tritonstack.spec.models.rules import model_violations


class ModelSpec(ModelFields):
    """A model.yaml file."""

    @model_validator(mode="after")
    def _consistent(self) -> ModelSpec:
        raise_violations(model_violations(self))
        return self
