"""What a check of a repository finds: errors, which fail, and warnings, which surprise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from model_build.errors import ModelConfigError, SurprisingSettingError
from model_build.repository.config import CONFIG_NAME, FieldPlace, field_of, line_of
from tritonstack.base.errors import FileViolation

Severity = Literal["error", "warning"]
LARGEST_TEXT = 1 << 20
"""Largest configuration or program that is read."""


@dataclass(frozen=True, kw_only=True)
class Finding(FileViolation):
    """One finding: an error keeps a model from loading or answering, in one hosting mode at least."""

    severity: Severity


@dataclass(frozen=True)
class LintOptions:
    """What is known about the endpoint."""

    release: str
    """The Triton release, such as 26.05."""
    gpus: int | None = None
    """GPUs of the instance type; None if unknown."""
    default_model: str | None = None
    """SAGEMAKER_TRITON_DEFAULT_MODEL_NAME of a single-model endpoint; None if unknown."""


@dataclass(frozen=True)
class ModelFolder:
    """One model of the repository, with its parsed configuration."""

    name: str
    folder: Path
    shown: Path
    """The path for messages: below the archive's own path if the repository was packed."""
    config: Any
    lines: Mapping[FieldPlace, int] = field(default_factory=dict)
    has_config: bool = True

    @property
    def versions(self) -> list[Path]:
        """The numeric version folders, lowest first."""
        folders = (entry for entry in self.folder.iterdir() if entry.is_dir() and entry.name.isdecimal())
        return sorted(folders, key=lambda entry: int(entry.name))

    def error(
        self, message: str, remedy: str, *place: str | int, code: str = ModelConfigError.code
    ) -> Finding:
        """Return an error at a field of config.pbtxt."""
        return self._finding("error", code, message, remedy, place)

    def warning(
        self, message: str, remedy: str, *place: str | int, code: str = SurprisingSettingError.code
    ) -> Finding:
        """Return a warning at a field of config.pbtxt."""
        return self._finding("warning", code, message, remedy, place)

    def _finding(
        self, severity: Severity, code: str, message: str, remedy: str, place: FieldPlace
    ) -> Finding:
        file = self.shown / CONFIG_NAME if self.has_config else self.shown
        line = line_of(self.lines, *place) if place else None
        return Finding(file, line, field_of(place), message, remedy, code=code, severity=severity)


def in_file(severity: Severity, code: str, file: Path, message: str, remedy: str) -> Finding:
    """Return a finding about a whole file or folder."""
    return Finding(file, None, "", message, remedy, code=code, severity=severity)


def is_small(file: Path) -> bool:
    """Return whether a path is a plain file of a size that people write."""
    return file.is_file() and file.stat().st_size <= LARGEST_TEXT
