"""`models/<name>/model.yaml`: its fields, and the rules on several of them."""

from __future__ import annotations

from pydantic import model_validator

from tritonstack.base.yaml import raise_violations
from tritonstack.files.model.fields import ModelFields
from tritonstack.files.model.rules import model_violations


class ModelSpec(ModelFields):
    """A model.yaml file."""

    @model_validator(mode="after")
    def _consistent(self) -> ModelSpec:
        raise_violations(model_violations(self))
        return self
