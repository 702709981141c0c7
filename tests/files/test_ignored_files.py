"""Files of environments and models that a wrong name makes ineffective are reported."""

from __future__ import annotations

import pytest

from tests.projects import ENVIRONMENT
from tritonstack.base.errors import shown_path
from tritonstack.base.paths import Project
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.validation import validate_project


@pytest.mark.parametrize(
    ("file", "reported", "remedy"),
    [
        ("environments/foo.yml", "environments/foo.yml: ignored", "rename it to foo.yaml"),
        ("environments/foo.YAML", "environments/foo.YAML: ignored", "rename it to foo.yaml"),
        ("environments/dev.lock.yml", "environments/dev.lock.yml: ignored", "rename it to dev.lock.yaml"),
        (
            "environments/preview.template.yml",
            "environments/preview.template.yml: ignored",
            "rename it to preview.template.yaml",
        ),
        ("delivery.yml", "delivery.yml: ignored", "rename it to delivery.yaml"),
        ("models/foo/model.yml", "models/foo/model.yml: ignored", "rename it to model.yaml"),
        ("models/foo.yaml", "models/foo.yaml: ignored", "move it to models/foo/model.yaml"),
        (
            "models/foo/weights/model.bin",
            "models/foo: ignored because it has no model.yaml",
            "add its model.yaml, or remove the folder",
        ),
    ],
)
def test_an_ineffective_name_is_reported(
    project: Project, monkeypatch: pytest.MonkeyPatch, file: str, reported: str, remedy: str
) -> None:
    monkeypatch.chdir(project.root)
    (project.root / file).parent.mkdir(parents=True, exist_ok=True)
    (project.root / file).write_text(ENVIRONMENT)
    (violation,) = validate_project(ProjectFiles(project))
    assert f"{shown_path(violation.file)}: {violation.message}" == reported
    assert (violation.remedy, violation.code) == (remedy, "TS204")


@pytest.mark.parametrize(
    "file",
    [
        "environments/README.md",
        "environments/.dev.yml",
        "models/README.md",
        "models/empty/.keep",
        "models/left/__pycache__/model.pyc",
        "models/minilm/labels.yml",
    ],
)
def test_other_files_are_not(project: Project, file: str) -> None:
    (project.root / file).parent.mkdir(parents=True, exist_ok=True)
    (project.root / file).write_text("x")
    assert validate_project(ProjectFiles(project)) == []
