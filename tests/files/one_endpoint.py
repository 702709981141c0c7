"""Environments with one endpoint, for tests of its errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.environments import NAME, Data, write_environment
from tests.projects import add_image
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_models, load_workspace
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact
from tritonstack.files.sources.model_hashes import model_hash

DIGEST = "ab" * 32


def environment(endpoint: str | Mapping[str, Any] = "", **changes: object) -> Data:
    """Return an environment with one endpoint; `endpoint` overrides the defaults."""
    given = yaml.safe_load(f"{{{endpoint}}}") if isinstance(endpoint, str) else endpoint
    served = {"models": ["encoder"]} if given.get("kind") == "multi-model" else {"model": "encoder"}
    return {
        "name": NAME,
        "account": "111111111111",
        "region": "eu-west-1",
        "triton_release": "25.04",
        "endpoints": {"e": {"kind": "ensemble", **served, "instance_type": "ml.c7i.xlarge", **given}},
        **changes,
    }


def violations(project: Project) -> tuple[FileViolation, ...]:
    """Return what is wrong with the environment of a project; each error has a line and a remedy."""
    errors: tuple[FileViolation, ...] = ()
    try:
        load_workspace(project, NAME)
    except InvalidFilesError as error:
        errors = error.violations
    assert all(violation.line and violation.remedy for violation in errors), errors
    return errors


def complaints(folder: Path, data: Data) -> list[tuple[str, str]]:
    """Return field and code of each error of an environment."""
    return [coded(violation) for violation in violations(write_environment(folder, data))]


def coded(violation: FileViolation) -> tuple[str, str]:
    return violation.field, violation.code


def names(violation: FileViolation, words: str) -> bool:
    """Check that the message or the remedy has each of these words."""
    text = f"{violation.message} {violation.remedy}"
    return all(word in text for word in words.split())


def locked(
    folder: Path, endpoint: str, built: Mapping[str, Mapping[str, object]], **changes: object
) -> Workspace:
    """Return the workspace of one endpoint whose model `encoder` was built for these targets."""
    project = write_environment(folder, environment(endpoint, **changes))
    entry = LockedArtifact(
        digest=DIGEST,
        spec_hash=model_hash("encoder", load_models(project, "encoder")),
        archive_bytes=1,
        unpacked_bytes=1,
    )
    artifacts = {target: entry.model_copy(update=dict(facts)) for target, facts in built.items()}
    write_lock(project.lock_file(NAME), Lock(models={"encoder": artifacts}))
    return load_workspace(project, NAME)


def only(violations: list[FileViolation]) -> FileViolation:
    (violation,) = violations
    return violation


CODE = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"


def with_models(
    folder: Path,
    endpoint: str,
    models: Mapping[str, str],
    requirements: str = "six==1.17.0\n",
    **changes: object,
) -> Project:
    """Write an environment with one endpoint, these models with all files they may name, and an image."""
    project = write_environment(folder, environment(endpoint, **changes))
    add_image(folder, "with-vllm")
    for name, text in models.items():
        file = project.model_file(name)
        (file.parent / "w").mkdir(parents=True)
        (file.parent / "model.py").write_text(CODE)
        (file.parent / "requirements.txt").write_text(requirements)
        file.write_text(f"name: {name}\ndescription: For tests.\n{text}")
    return project
