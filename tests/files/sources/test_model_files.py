"""The files of a model in this repository: which are read, hashed, and rejected."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.files.one_endpoint import coded, names
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Document, load_document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.sources.contents import check_model
from tritonstack.files.sources.model_files import helper_files
from tritonstack.files.sources.model_hashes import ModelHash, file_digests, hash_model, model_hash

ANSWERED = "[{inputs: {x: [1.0]}, outputs: {y: [1.0]}}]"


def write(folder: Path, **keys: str) -> Document[ModelSpec]:
    """Write a model.yaml with these keys, and a model.py beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text("class TritonPythonModel:\n    def execute(self, requests): ...\n")
    facts = {"name": "m", "description": "M.", "recipe": "{kind: python}", "test_inputs": ANSWERED, **keys}
    file = folder / "model.yaml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in facts.items()))
    return load_document(file, ModelSpec)


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")


OWN_FILES = {
    "model.py": ({}, "recipe.code"),
    "packages.txt": ({"recipe": "{kind: python, requirements: packages.txt}"}, "recipe.requirements"),
    "env.tar.gz": ({"recipe": "{kind: python, environment: env.tar.gz}"}, "recipe.environment"),
    "right.py": ({"recipe": '{kind: python, reference: "right.py:right"}'}, "recipe.reference"),
    "answers.npz": ({"test_inputs": "[{file: answers.npz}]"}, "test_inputs.0"),
    "config.pbtxt": ({"triton": "{config: config.pbtxt}"}, "triton.config"),
}


@pytest.mark.parametrize("name", OWN_FILES)
@pytest.mark.parametrize("target", ["/etc/passwd", "../secret"])
def test_links_out_of_the_model_folder_are_rejected(tmp_path: Path, name: str, target: str) -> None:
    (tmp_path / "secret").write_text("secret")
    keys, field = OWN_FILES[name]
    model = write(tmp_path / "m", **keys)
    (tmp_path / "m" / name).unlink(missing_ok=True)
    (tmp_path / "m" / name).symlink_to(target)
    (violation,) = check_model(model).violations
    assert (*coded(violation), violation.line is not None) == (field, "TS101", True)
    assert names(violation, f"{name} link copy")
    with pytest.raises(InvalidFilesError):
        model_hash("m", {"m": model})


def test_a_missing_file_is_named_with_its_field(tmp_path: Path) -> None:
    (violation,) = check_model(
        write(tmp_path / "m", recipe="{kind: python, requirements: packages.txt}")
    ).violations
    assert (*coded(violation), violation.line) == ("recipe.requirements", "TS201", 3)
    assert names(violation, "packages.txt")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/etc/passwd")])
def test_source_is_hashed_without_following_outside_links(tmp_path: Path, make: Any) -> None:
    model = write(tmp_path / "m", source="file://weights")
    fill(tmp_path / "m/weights", "a.bin")
    make(tmp_path / "m/weights/x")
    with pytest.raises(InvalidFilesError) as caught:
        model_hash("m", {"m": model})
    assert [(*coded(error), error.line) for error in caught.value.violations] == [("source", "TS101", 5)]


@pytest.mark.parametrize("source", ["file://../shared", "file:///srv/shared", "file://a/../../shared"])
def test_source_outside_the_repository_needs_a_reason(tmp_path: Path, source: str) -> None:
    short = {"trust": "{external_source: because}"}
    for trust, told in (({}, ("source", "TS101")), (short, ("trust.external_source", "TS111"))):
        with pytest.raises(InvalidFilesError) as caught:
            write(tmp_path / "m", source=source, **trust)
        assert [coded(error) for error in caught.value.violations] == [told]
    assert write(tmp_path / "m", source=source, trust="{external_source: the team's folder}")


def test_source_linked_from_outside_needs_a_reason(tmp_path: Path) -> None:
    fill(tmp_path / "shared", "a.bin")
    (tmp_path / "m").mkdir()
    (tmp_path / "m/weights").symlink_to(tmp_path / "shared")
    (violation,) = check_model(write(tmp_path / "m", source="file://weights")).violations
    assert coded(violation) == ("source", "TS101")
    trusted = write(tmp_path / "m", source="file://weights", trust="{external_source: the team's folder}")
    assert check_model(trusted).violations == ()


def test_packed_helpers(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    packed = ["helpers.py", "kit/__init__.py", "kit/words.json", "kit/deep/table.csv", "plain/inner/code.py"]
    left = [
        *(
            "test_model.py",
            "conftest.py",
            "tests/test_all.py",
            "kit/tests/test_kit.py",
            "kit/__pycache__/a.pyc",
        ),
        *(
            "notes.txt",
            "old model.py",
            "pictures/rose.jpg",
            "plain/data.csv",
            "weights/train.py",
            ".venv/x.py",
        ),
    ]
    fill(folder, *packed, *left)
    model = write(folder, source="file://weights")
    assert list(helper_files(model)) == sorted(packed)


def test_helpers_are_part_of_the_hash(tmp_path: Path) -> None:
    model = write(tmp_path / "m")
    hashes = [model_hash("m", {"m": model})]
    for name in ("helpers.py", "kit/__init__.py", "kit/words.json"):
        fill(tmp_path / "m", name)
        hashes.append(model_hash("m", {"m": model}))
    (tmp_path / "m/helpers.py").write_text("changed")
    hashes.append(model_hash("m", {"m": model}))
    assert len(set(hashes)) == len(hashes)
    fill(tmp_path / "m", "__pycache__/helpers.cpython-311.pyc", "tests/test_all.py", ".git/HEAD")
    assert model_hash("m", {"m": model}) == hashes[-1]


@pytest.mark.parametrize(
    ("name", "code", "told", "words"),
    [
        ("queue.py", "import queue", "TS309", "`import queue`"),
        ("types/__init__.py", "from types import x", "TS309", "`import types`"),
        ("numpy.py", "import numpy as np", "TS309", "`import numpy`"),
        ("model/__init__.py", "", "TS309", "model.py"),
        ("kit/weights.pkl", "", "TS217", "pickle"),
    ],
)
def test_helpers_that_would_not_work(tmp_path: Path, name: str, code: str, told: str, words: str) -> None:
    model = write(tmp_path / "m")
    fill(tmp_path / "m", name, "kit/__init__.py")
    (tmp_path / "m/kit/use.py").write_text(code)
    (violation,) = check_model(model).violations
    assert (violation.code, names(violation, words)) == (told, True)
    assert violation.remedy


def test_unimported_script_can_have_any_name(tmp_path: Path) -> None:
    model = write(tmp_path / "m")
    fill(tmp_path / "m", "profile.py")
    assert check_model(model).violations == ()


@pytest.mark.parametrize("where", ["model.py", "helpers.py", "kit/use.py"])
@pytest.mark.parametrize("target", ["../shared", "{}/shared"])
@pytest.mark.parametrize("line", ["import shared.words", "from .shared import f", "from . import shared"])
def test_helpers_linked_from_outside(tmp_path: Path, where: str, target: str, line: str) -> None:
    fill(tmp_path / "shared", "__init__.py")
    model = write(tmp_path / "m")
    fill(tmp_path / "m", "kit/__init__.py")
    with (tmp_path / "m" / where).open("a") as file:
        file.write(f"\n{line}\n")
    (tmp_path / "m/shared").symlink_to(target.format(tmp_path))
    (violation,) = check_model(model).violations
    assert (coded(violation), names(violation, "shared link")) == (("recipe.code", "TS101"), True)


def test_unimported_outside_links_are_not_packed(tmp_path: Path) -> None:
    fill(tmp_path / "shared", "__init__.py", "rows.csv")
    model = write(tmp_path / "m")
    fill(tmp_path / "m", "training/train.py", "helpers.py")
    for link in ("data", "training/data", "other.py"):
        (tmp_path / "m" / link).symlink_to(tmp_path / "shared")
    os.mkfifo(tmp_path / "m/pipe.py")
    assert check_model(model).violations == ()
    assert list(helper_files(model)) == ["helpers.py"]


def test_the_version_of_the_tool_is_one_part_of_the_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = "{kind: ensemble, steps: [{model: m}, {model: m, inputs: {x: y}, outputs: {y: z}}]}"
    sent = "[{inputs: {x: [1.0]}}]"
    models = {
        "m": write(tmp_path / "m"),
        "e": write(tmp_path / "e", recipe=steps, name="e", test_inputs=sent),
    }

    def hashes() -> dict[str, ModelHash]:
        return {
            name: hash_model(name, models, lambda member: file_digests(models[member])) for name in models
        }

    before = hashes()
    monkeypatch.setattr("tritonstack.files.sources.model_hashes.BUILDER_VERSION", 99)
    after = hashes()
    assert all(after[name].value != before[name].value for name in models)
    changed = {
        name: [part for part, value in before[name].parts.items() if after[name].parts[part] != value]
        for name in models
    }
    assert changed == {"m": ["builder"], "e": ["builder"]}
