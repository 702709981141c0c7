"""Read and validate a buildspec (YAML or JSON)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tritonstack.base.yaml import load_yaml
from tritonstack_local.codebuild.errors import PhaseFailedError
from tritonstack_local.codebuild.unsupported import ACCEPTED_WITHOUT_EFFECT, UNSUPPORTED


def _text(value: Any) -> Any:
    """YAML parses 1 and yes as other types than text."""
    return (
        str(value).lower()
        if isinstance(value, bool)
        else str(value)
        if isinstance(value, int | float)
        else value
    )


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float) else value or []


Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,  # deferred until the first build, to keep the cloud's start fast
        alias_generator=lambda name: name.replace("_", "-").rstrip("-"),
    )


class PhaseSpec(_Record):
    """The commands of one phase."""

    run_as: Text | None = None
    on_failure: Literal["ABORT", "CONTINUE"] | None = None
    commands: Texts = ()
    finally_: Texts = ()
    runtime_versions: Mapping[str, Any] | None = None


class EnvSpec(_Record):
    """The shell and the environment variables."""

    shell: Literal["sh", "bash", "/bin/sh", "/bin/bash"] = "sh"
    variables: Mapping[str, Text] = Field(default_factory=dict)
    git_credential_helper: bool | None = None


class PhasesSpec(_Record):
    """The phases of a buildspec."""

    install: PhaseSpec = PhaseSpec()
    pre_build: Annotated[PhaseSpec, Field(alias="pre_build")] = PhaseSpec()
    build: PhaseSpec = PhaseSpec()
    post_build: Annotated[PhaseSpec, Field(alias="post_build")] = PhaseSpec()


class Buildspec(_Record):
    """A buildspec."""

    version: Literal["0.2"]
    run_as: Text | None = None
    env: EnvSpec = EnvSpec()
    phases: PhasesSpec
    reports: Mapping[str, Any] | None = None
    cache: Mapping[str, Any] | None = None
    proxy: Mapping[str, Any] | None = None

    def phase(self, name: str) -> PhaseSpec:
        """Return a phase by name; empty if the buildspec lacks it."""
        phase: PhaseSpec = getattr(self.phases, name)
        return phase

    def without_effect(self) -> Iterator[str]:
        """Return its settings without effect."""
        settings = {
            "buildspec.cache": self.cache,
            "buildspec.reports": self.reports,
            "buildspec.proxy": self.proxy,
            "buildspec.env.git-credential-helper": self.env.git_credential_helper,
            "buildspec.phases.install.runtime-versions": self.phases.install.runtime_versions,
        }
        yield from (f"{name}: {ACCEPTED_WITHOUT_EFFECT[name]}" for name, value in settings.items() if value)


def is_inline(text: str) -> bool:
    """Return whether a text is a buildspec rather than its path."""
    return "\n" in text or text.lstrip().startswith("{") or ": " in text


def parse_buildspec(text: str) -> Buildspec:
    """Parse a buildspec, or fail the phase as CodeBuild does."""
    try:
        document = load_yaml(text)
    except yaml.MarkedYAMLError as error:
        line = f" at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _wrong(f"{error.problem}{line}") from error
    except yaml.YAMLError as error:
        raise _wrong(str(error)) from error
    if not isinstance(document, Mapping):
        raise _wrong("expected a mapping")
    _reject_unsupported(document)
    try:
        return Buildspec.model_validate({**document, "version": _text(document.get("version"))})
    except ValidationError as error:
        raise _wrong("; ".join(_messages(error))) from error


def _reject_unsupported(document: Mapping[str, Any]) -> None:
    for what in _requested(document):
        if what in UNSUPPORTED:
            raise _wrong(f"The local cloud does not support {what}: {UNSUPPORTED[what]}.")


def _requested(document: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"buildspec.{name}" for name in document)
    yield f"buildspec.version {_text(document.get('version'))}"
    phases, env = document.get("phases"), document.get("env")
    for phase in phases.values() if isinstance(phases, Mapping) else ():
        if isinstance(phase, Mapping) and str(phase.get("on-failure", "")).startswith("RETRY"):
            yield "buildspec.on-failure RETRY"
    yield from (f"buildspec.env.{name}" for name in (env if isinstance(env, Mapping) else ()))


def _messages(failure: ValidationError) -> Iterator[str]:
    for error in failure.errors():
        where = ".".join(str(part) for part in error["loc"])
        yield f"{where}: {error['msg']}"


def _wrong(message: str) -> PhaseFailedError:
    return PhaseFailedError("YAML_FILE_ERROR", message)
