"""The smallest valid project, for tests to modify."""

from __future__ import annotations

import shutil
from pathlib import Path

from tritonstack.base.paths import Project

MODEL = """\
name: minilm
description: Sentence embeddings.
source: file://weights
recipe:
  kind: text-embedding
test_inputs: [A man is eating food.]
"""

EMPTY_WEIGHTS = (2).to_bytes(8, "little") + b"{}"
"""A safetensors file without tensors."""
ENVIRONMENT = """\
name: dev
account: "111111111111"
region: eu-west-1
triton_release: "25.04"
endpoints:
  search:
    kind: ensemble
    model: minilm
    instance_type: ml.c7i.xlarge
"""


def write_project(root: Path) -> Project:
    """A project with one model and one environment."""
    (root / "cdk.json").write_text("{}")
    (root / "models" / "minilm").mkdir(parents=True)
    (root / "models" / "minilm" / "model.yaml").write_text(MODEL)
    (root / "models" / "minilm" / "weights").mkdir()
    (root / "models" / "minilm" / "weights" / "model.safetensors").write_bytes(EMPTY_WEIGHTS)
    add_builder(root)
    (root / "environments").mkdir()
    (root / "environments" / "dev.yaml").write_text(ENVIRONMENT)
    return Project(root)


def add_builder(root: Path) -> None:
    """Write the inputs of the builder's image, which every project with builds in its account has."""
    add_image(root, "builder")


def add_image(root: Path, name: str) -> None:
    """Write the inputs of one of the project's own images."""
    folder = root / "containers" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n")


def edit(file: Path, old: str, new: str) -> None:
    """Change one thing in a file; fail if it is missing."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def copy_build_source(repository: Path, root: Path) -> None:
    """Copy what jobs in an account build with, except models."""
    # Loads the CDK, which most tests do not need.
    from tritonstack.constructs.builds.builds import build_files

    for name, source in build_files(Project(repository)):
        if name == "models":
            continue
        if source.is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, root / name)
        else:
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
