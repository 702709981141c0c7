"""Remedies for environments with a promotion source: they name `promote`, because builds skip the gates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.files.records.test_locks import BUILT
from tests.manifests import manifest, measured
from tests.projects import add_image, edit, write_project
from tritonstack.base.errors import FileViolation
from tritonstack.base.paths import Project
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.environment.templates import Instance
from tritonstack.files.loading import ProjectFiles, load_workspace
from tritonstack.files.records.lock_writing import add_to_lock
from tritonstack.operate.locks.checks import check_offline

COMMAND = "`tritonstack promote dev prod`"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose `prod` is promoted from `dev`."""
    project = write_project(tmp_path)
    text = project.environment_file("dev").read_text().replace("name: dev", "name: prod")
    project.environment_file("prod").write_text(text + "promotion: {source: dev}\n")
    return project


def lock(project: Project, **changes: Any) -> None:
    """Lock an artifact that was built for `prod`."""
    hashes = load_workspace(project, "prod").hashes
    made = manifest("minilm", **{"spec_hash": hashes["minilm"], **measured(), **changes})
    add_to_lock(project.lock_file("prod"), [made], built=BUILT)


def missing_image(project: Project) -> None:
    lock(project)
    add_image(project.root, "serving")
    edit(project.environment_file("prod"), "    model: minilm", "    model: minilm\n    image: serving")


@pytest.mark.parametrize(
    ("arrange", "code"),
    [
        (lambda _: None, "TS401"),
        (missing_image, "TS401"),
        (lambda project: lock(project, spec_hash="77" * 32), "TS402"),
        (lambda project: lock(project, tensorrt="10.9.0"), "TS402"),
    ],
    ids=["empty lock", "missing image", "changed model", "other engine"],
)
def test_remedies_name_promote(project: Project, arrange: Callable[[Project], None], code: str) -> None:
    arrange(project)
    (violation,) = unbuilt(load_workspace(project, "prod"))
    assert violation.code == code
    for found in (violation, *check_offline(ProjectFiles(project), ["prod"]).violations):
        assert_promotes(found)


def assert_promotes(violation: FileViolation) -> None:
    assert COMMAND in str(violation.remedy)
    assert "tritonstack build" not in str(violation.remedy)


def test_instances_follow_the_environment_whose_lock_they_use(project: Project) -> None:
    text = project.environment_file("dev").read_text().replace("name: dev", "name: ${name}")
    head = "template: {locks: prod, purpose: preview}\nremoval: destroy\n"
    project.template_file("preview").write_text(head + text)
    instance = Instance("preview", "pr-1", "ann", "2026-11-30T00:00:00Z", {})
    (violation,) = unbuilt(ProjectFiles(project).instance(instance))
    assert_promotes(violation)
