"""Environments with one endpoint, for tests of its errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.environments import NAME, Data, write_environment
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.project.files.model_hashes import model_hash
from tritonstack.project.loading import load_models, load_workspace
from tritonstack.project.workspace import Workspace
from tritonstack.records.lock_writing import write_lock
from tritonstack.records.locks import Lock, LockedArtifact

DIGEST = "ab" * 32


def environment(endpoint: str, **changes: object) -> Data:
    """Return an environment with one endpoint; `endpoint` overrides the defaults."""
    base = {"kind": "ensemble", "model": "encoder", "instance_type": "ml.c7i.xlarge"}
    given = yaml.safe_load(f"{{{endpoint}}}") or {}
    if given.get("kind") == "multi-model":
        base = {"models": ["encoder"], "instance_type": "ml.c7i.xlarge"}
    return {
        "name": NAME,
        "account": "111111111111",
        "region": "eu-west-1",
        "triton_release": "25.04",
        "endpoints": {"e": {**base, **given}},
        **changes,
    }


def complaints(folder: Path, data: Data) -> list[str]:
    """Return the violations of an environment, without their file."""
    with pytest.raises(InvalidFilesError) as caught:
        load_workspace(write_environment(folder, data), NAME)
    return [
        f"{violation.field}: {violation.message} -- {violation.remedy}"
        for violation in caught.value.violations
    ]


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
