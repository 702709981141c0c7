"""The choice of `precision: auto` is stored in locks, and reused for the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import edit, write_project
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.build_plans import needed_artifacts
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact

INT8 = {"minilm": "int8"}
ENSEMBLE = """\
name: pair
description: Two steps.
recipe:
  kind: ensemble
  steps:
    - {model: minilm, outputs: {embedding: first}}
    - {model: minilm, outputs: {embedding: second}}
test_inputs: [A text.]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = write_project(tmp_path)
    edit(project.model_file("minilm"), "recipe:", "precision: auto\nrecipe:")
    (project.environments_dir / "prod.yaml").write_text(
        project.environment_file("dev").read_text().replace("name: dev", "name: prod")
    )
    return project


def lock(project: Project, environment: str, choices: dict[str, str] | None, model: str = "minilm") -> None:
    spec_hash = load_workspace(project, environment).hashes[model]
    entry = LockedArtifact(
        digest="ab" * 32, spec_hash=spec_hash, archive_bytes=1, unpacked_bytes=1, choices=choices
    )
    write_lock(project.lock_file(environment), Lock(models={model: {"cpu": entry}}))


def choices(project: Project, environment: str = "dev") -> dict[str, str]:
    (needed,) = needed_artifacts(load_workspace(project, environment))
    return dict(needed.choices)


def test_the_same_files_are_built_as_before_in_every_environment(project: Project) -> None:
    assert choices(project) == {}
    lock(project, "dev", INT8)
    assert choices(project) == INT8
    assert choices(project, "prod") == INT8


def test_an_environments_own_lock_comes_first(project: Project) -> None:
    lock(project, "dev", {"minilm": "fp32"})
    lock(project, "prod", INT8)
    assert choices(project, "dev") == {"minilm": "fp32"}
    assert choices(project, "prod") == INT8


def test_other_files_are_tuned_again(project: Project) -> None:
    lock(project, "dev", INT8)
    edit(project.model_file("minilm"), "A man is eating food.", "Another text.")
    assert choices(project) == {}


def test_damaged_lock_of_another_environment_does_not_block_builds(project: Project) -> None:
    lock(project, "dev", INT8)
    project.lock_file("prod").write_text("models: [")
    assert choices(project) == INT8


def test_a_pipeline_records_the_choices_of_its_models(project: Project) -> None:
    file = project.model_file("pair")
    file.parent.mkdir()
    file.write_text(ENSEMBLE)
    edit(project.environment_file("dev"), "model: minilm", "model: pair")
    lock(project, "dev", INT8, model="pair")
    assert choices(project) == INT8
    edit(project.model_file("minilm"), "A man is eating food.", "Another text.")
    assert choices(project) == {}
