"""What all shapes of JSON results have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A JSON object with exactly these keys; a default marks a key that is not always there."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
