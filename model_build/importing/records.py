"""What an import is asked for, and what it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_build.linting.findings import Finding, LintOptions
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.naming import NAME_PATTERN
from tritonstack.files.records.manifests import TensorSpec

SOURCE_FOLDER = "source"
"""Folder of an imported model with its files."""
_LONGEST_NAME = 40


@dataclass(frozen=True)
class ImportRequest:
    """What to import, and for which endpoint."""

    path: Path
    options: LintOptions
    name: str | None = None
    """The new model; default: the name of the imported one."""
    entry: str | None = None
    """The model of a repository with several."""
    inputs: Path | None = None
    """An .npz file with test inputs."""
    trust_pickle: str | None = None
    """Why its pickles are safe to load."""

    def named(self, own_name: str) -> str:
        """Return the name of the new model, from the name of the imported one."""
        if self.name is not None:
            return self.name
        words = re.sub(r"[^a-z0-9]+", "-", own_name.lower()).lstrip("0123456789-")
        name = words[:_LONGEST_NAME].strip("-")
        if not NAME_PATTERN.fullmatch(name):
            raise CommandLineError(f"cannot derive a model name from {own_name!r}", remedy="add --name NAME")
        return name


@dataclass(frozen=True)
class ImportedModel:
    """An imported model, before it is added to the project."""

    kind: str
    """What was imported, such as `Merlin export`."""
    values: Mapping[str, Any]
    """The keys of its model.yaml."""
    changes: tuple[str, ...] = ()
    """What the import changed or left out."""
    findings: tuple[Finding, ...] = ()
    """Warnings about the imported repository."""
    tensors: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]] | None = None
    """Its inputs and outputs, if they are known before a build."""
