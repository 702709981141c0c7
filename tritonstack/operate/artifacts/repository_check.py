"""Check an existing Triton repository against the contract of Triton on SageMaker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_build.linting.check import lint_repository
from model_build.linting.findings import Finding, LintOptions
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.results import public
from tritonstack.base.yaml import closest
from tritonstack.facts.container_variables import DEFAULT_MODEL_NAME
from tritonstack.facts.hardware import INSTANCE_TYPES
from tritonstack.facts.releases import RELEASES
from tritonstack.operate.shared.session import Session


@dataclass(frozen=True)
class RepositoryCheck:
    """What is in a repository, and what is wrong with it."""

    path: Path
    release: str
    models: tuple[str, ...]
    entry: str | None
    """The model that both hosting modes load; None if it is not certain."""
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """Number of findings that keep a model from loading or answering."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """Number of findings that surprise."""
        return len(self.findings) - self.errors

    @property
    def counts(self) -> str:
        """Both numbers, such as `1 error, 2 warnings`."""
        counts = {"error": self.errors, "warning": self.warnings}
        return ", ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items())

    @public
    def variables(self) -> dict[str, str]:
        """The variables that a single-model endpoint needs."""
        return {DEFAULT_MODEL_NAME: self.entry} if self.entry and len(self.models) > 1 else {}

    @public
    def ok(self) -> bool:
        """True without errors."""
        return self.errors == 0


def check_repository(
    session: Session,
    path: Path,
    *,
    release: str | None = None,
    instance_type: str | None = None,
    default_model: str | None = None,
) -> RepositoryCheck:
    """Check a repository: a folder or a model.tar.gz. Nothing is started, fetched, or changed.

    `default_model` is SAGEMAKER_TRITON_DEFAULT_MODEL_NAME of a single-model endpoint. Default: the newest
    release, and any instance type.
    """
    options = lint_options(release, instance_type, default_model)
    with session.reporter.step(f"checking {path}") as step:
        violations = lint_repository(path, options)
        check = RepositoryCheck(
            path, options.release, violations.models, violations.entry, violations.findings
        )
        step.detail = f"{check.counts}"
    return check


def lint_options(
    release: str | None = None, instance_type: str | None = None, default_model: str | None = None
) -> LintOptions:
    """Return what is known about the endpoint; raise UsageError for unknown names."""
    chosen = release or list(RELEASES)[-1]
    _require(chosen, RELEASES, "Triton release")
    if instance_type is None:
        return LintOptions(chosen, None, default_model)
    _require(instance_type, INSTANCE_TYPES, "instance type")
    return LintOptions(chosen, INSTANCE_TYPES[instance_type].gpus, default_model)


def _require(name: str, choices: dict[str, Any], kind: str) -> None:
    if name not in choices:
        suggestion = closest(name, choices)
        raise CommandLineError(
            f"unknown {kind} {name!r}",
            remedy=f"did you mean '{suggestion}'?" if suggestion else f"known: {', '.join(choices)}",
        )
