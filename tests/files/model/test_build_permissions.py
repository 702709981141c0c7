"""What a build can read, and which models therefore get their own role."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import MODEL
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_models
from tritonstack.files.model.build_permissions import BuildPermissions, permissions_of

TEXT = MODEL.replace("name: minilm", "name: m")
PYTHON = "name: m\ndescription: Code.\nrecipe: {kind: python}\ntest_inputs: [{inputs: {x: [1.0]}}]\n"
TENSORS = "test_inputs: [{random: {}}]\n"
TREES = "name: m\ndescription: Trees.\nsource: file://w\nrecipe: {kind: trees, file: m.pkl}\n"
SCRIPT = "name: m\ndescription: A module.\nsource: file://w\nrecipe: {kind: torchscript, file: m.pt}\n"
REASON = "we trained it ourselves"


def reach(folder: Path, **models: str) -> BuildPermissions:
    project = Project(folder)
    for name, text in models.items():
        file = project.model_file(name)
        file.parent.mkdir(parents=True)
        file.write_text(text)
        (file.parent / "model.py").touch()
    return permissions_of("m", load_models(project, "m"))


@pytest.mark.parametrize(
    ("text", "own_code"),
    [
        (TEXT, False),
        (PYTHON, True),
        (SCRIPT + TENSORS, True),
        (TREES + TENSORS, False),
        (f"{TREES}trust: {{pickle: {REASON}}}\n{TENSORS}", True),
        (f"{TEXT}trust: {{remote_code: {REASON}}}\n", True),
    ],
)
def test_models_with_custom_code(tmp_path: Path, text: str, own_code: bool) -> None:
    assert reach(tmp_path, m=text).own_code is own_code


def test_sources_on_the_hub_and_in_buckets(tmp_path: Path) -> None:
    hub = TEXT.replace("file://weights", "hf://a/b@0a1b2c3")
    assert reach(tmp_path / "1", m=hub) == BuildPermissions(own_code=False, hub=True)
    kept = TEXT.replace("file://weights", "s3://far/p")
    assert reach(tmp_path / "2", m=kept) == BuildPermissions(
        own_code=False, hub=False, buckets=("s3://far/p",)
    )


def test_pipeline_needs_the_build_permissions_of_its_models(tmp_path: Path) -> None:
    chain = (
        "name: m\ndescription: A pipeline.\nrecipe: {kind: ensemble, steps: [{model: a}, {model: b}]}\n"
        "test_inputs: [A man is eating food.]\n"
    )
    kept = MODEL.replace("name: minilm", "name: a").replace("file://weights", "s3://far/p")
    found = reach(tmp_path, m=chain, a=kept, b=PYTHON.replace("name: m", "name: b"))
    assert found == BuildPermissions(own_code=True, hub=False, buckets=("s3://far/p",))
