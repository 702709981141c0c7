"""Read and validate a buildspec (YAML or JSON). Fields that are not here are rejected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tritonstack.base.yaml import load_yaml
from tritonstack_local.codebuild.errors import PhaseFailedError

PHASES = ("INSTALL", "PRE_BUILD", "BUILD", "POST_BUILD")


def _text(value: Any) -> Any:
    """YAML parses 1 and yes as other types than text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float) else value or []


Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,  # deferred until the first build, to keep the cloud's start fast
        alias_generator=lambda name: name.replace("_", "-"),
    )


class PhaseSpec(_Record):
    """The commands of one phase."""

    run_as: Text | None = None
    on_failure: Literal["ABORT", "CONTINUE"] | None = None
    commands: Texts = ()
    runtime_versions: Mapping[str, Any] | None = None
    """Without effect: they depend on the image."""


class EnvSpec(_Record):
    """The environment variables."""

    variables: Mapping[str, Text] = Field(default_factory=dict)


class Buildspec(_Record):
    """A buildspec."""

    version: Annotated[Literal["0.2"], BeforeValidator(_text)]
    run_as: Text | None = None
    env: EnvSpec = EnvSpec()
    phases: Mapping[Literal["install", "pre_build", "build", "post_build"], PhaseSpec]


def parse_buildspec(text: str) -> Buildspec:
    """Parse a buildspec, or fail the phase as CodeBuild does."""
    try:
        return Buildspec.model_validate(load_yaml(text))
    except yaml.MarkedYAMLError as error:
        line = f" at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise PhaseFailedError("YAML_FILE_ERROR", f"{error.problem}{line}") from error
    except yaml.YAMLError as error:
        raise PhaseFailedError("YAML_FILE_ERROR", str(error)) from error
    except ValidationError as error:
        raise PhaseFailedError("YAML_FILE_ERROR", "; ".join(_messages(error))) from error


def _messages(failure: ValidationError) -> Iterator[str]:
    for error in failure.errors():
        where = ".".join(str(part) for part in error["loc"])
        yield f"{where}: {error['msg']}"
