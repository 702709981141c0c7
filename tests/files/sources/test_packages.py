"""Requirements of Python models, and weights that are incomplete, before anything is fetched or hashed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.files.one_endpoint import names, violations, with_models
from tritonstack.files import loading
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.validation import validate_project

SERVED = "kind: single, model: m"
PYTHON = (
    "recipe: {kind: python, requirements: requirements.txt}\n"
    "test_inputs: [{inputs: {x: [1.0]}, outputs: {y: [2.0]}}]\n"
)
FEATURES = "source: file://w\nrecipe: {kind: feature-extraction, input: tokens}\ntest_inputs: [a text]\n"


@pytest.mark.parametrize(
    ("line", "exact"),
    [
        ("six", False),
        ("six>=1.17", False),
        ("six==1.*", False),
        ("six==1.17,<2", False),
        ("-r others.txt", False),
        ("six @ https://example.com/six.whl", False),
        ("six==1.17.0", True),
        ('six[all] == 1.17.0 ; python_version < "3.12"', True),
        ("torch==2.13.0+cpu", True),
        (f"six===1.17.0 \\\n    --hash=sha256:{'0' * 64}", True),
    ],
)
def test_requirements_have_exact_versions(tmp_path: Path, line: str, exact: bool) -> None:
    requirements = f"# pinned\ntqdm==4.67.1\n\n{line}\n"
    project = with_models(tmp_path, SERVED, {"m": PYTHON}, requirements)
    for errors in (violations(project), validate_project(ProjectFiles(project))):
        told = [(error.file.name, error.line, error.code) for error in errors if error.field == ""]
        assert told == [("requirements.txt", 4, "TS318")] * (not exact)
    assert all(names(error, f"{line} <name>==") for error in violations(project))


@pytest.mark.parametrize(
    ("release", "numpy", "told"),
    [("24.09", "2.4.6", True), ("24.09", "1.26.4", False), ("25.04", "2.4.6", False)],
)
def test_numpy_is_the_one_of_the_releases_backend(
    tmp_path: Path, release: str, numpy: str, told: bool
) -> None:
    requirements = f"six==1.17.0\nnumpy=={numpy}\n"
    project = with_models(tmp_path, SERVED, {"m": PYTHON}, requirements, triton_release=release)
    errors = violations(project)
    assert [(error.file.name, error.line, error.code) for error in errors] == [
        ("requirements.txt", 2, "TS318")
    ] * told
    assert all(names(error, f"{release} {numpy} numpy==1.26.4") for error in errors)


def header(size: int) -> bytes:
    """Return the header of a tensor of 16 bytes, and `size` bytes after it."""
    entries: dict[str, Any] = {"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + bytes(size)


@pytest.mark.parametrize(
    "content",
    [
        *(b"cut", (1 << 60).to_bytes(8, "little"), header(8), header(24)),
        *((3).to_bytes(8, "little") + b"{]}", (400_000).to_bytes(8, "little") + b"[" * 400_000),
    ],
)
def test_incomplete_weights_are_rejected_before_they_are_hashed(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hashed(*_: object) -> str:
        raise AssertionError("hashed before it was checked")

    monkeypatch.setattr(loading, "file_digests", hashed)
    project = with_models(tmp_path, SERVED, {"m": FEATURES})
    (project.model_file("m").parent / "w" / "model.safetensors").write_bytes(content)
    (error,) = violations(project)
    assert (error.line, error.field, error.code) == (3, "source", "TS302")
    assert names(error, "model.safetensors")
