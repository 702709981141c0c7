"""Results of commands that read or write files of the project, or install tools."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tritonstack.workflows.json_results.shape import Shape


class CloudJson(Shape):
    """A running local cloud."""

    endpoint_url: str
    pid: int | None
    profile: str
    environment: dict[str, str]
    """Variables that select it."""
    notices: list[str]


class CapabilitiesJson(Shape):
    """What the local cloud supports."""

    types: list[dict[str, Any]]
    """CloudFormation types."""
    actions: dict[str, list[str]]
    limits: list[dict[str, Any]]
    """What is accepted without all of its effect on AWS."""
    rejected: dict[str, Any]


class DownJson(Shape):
    """A local cloud that was stopped."""

    stopped: bool
    forgotten: bool
    """True if its state was removed."""


class DownAllJson(Shape):
    """Local clouds that were stopped."""

    stopped: list[str]
    forgotten: list[str]


class ServedVersionJson(Shape):
    """A version of a model that `dev` serves; one document per version."""

    number: int
    url: str
    request: str
    seconds: float
    differences: list[str]
    """Differences from model.yaml."""


class DevErrorFactsJson(Shape):
    """Why a version cannot be served."""

    code: str | None
    message: str
    remedy: str = Field(default="")


class DevErrorJson(Shape):
    """A version of a model that cannot be built or served; the former one keeps serving."""

    error: DevErrorFactsJson
