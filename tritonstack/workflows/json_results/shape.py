"""What all shapes of JSON results have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A JSON object with exactly these keys; a default marks a key that is not always there."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ViolationJson(Shape):
    """An error in a file of the project."""

    file: str
    line: int | None
    field: str
    message: str
    remedy: str | None
    code: str


class FindingJson(ViolationJson):
    """An error or a warning about a Triton repository."""

    severity: str


class ErrorFactsJson(Shape):
    """Why a command failed."""

    code: str
    """A code that `tritonstack explain` explains."""
    message: str
    remedy: str | None
    exit_code: int
    failures: tuple[Any, ...] = ()
    """Each failure, if a check found several."""
    violations: list[ViolationJson]
    """Each error in the project's files."""


class ErrorJson(Shape):
    """What every command prints if it fails."""

    error: ErrorFactsJson
