"""What is said of one model does not depend on the others: every pair of valid and invalid models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import NAME, write_environment
from tests.files.one_endpoint import DIGEST, environment
from tests.projects import EMPTY_WEIGHTS
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.files.checks.compatibility import ASYNCHRONOUS_BYTES
from tritonstack.files.loading import ProjectFiles, load_models, load_workspace
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact
from tritonstack.files.sources.model_hashes import model_hash
from tritonstack.files.validation import validate_project

TEXTS = "source: file://w\ntest_inputs: [a text]\nrecipe: "
EMBEDDING = f"{TEXTS}{{kind: text-embedding, input: tokens}}\n"
ENSEMBLE = "test_inputs: [a text]\nrecipe: {{kind: ensemble, steps: [{{model: {}}}, {{model: {}}}]}}\n"
KINDS = {
    "valid": EMBEDDING,
    "unknown key": EMBEDDING.replace("input:", "inptu:"),
    "no YAML": "recipe: [",
    "wrong name": f"name: other\n{EMBEDDING}",
    "truncated weights": EMBEDDING.replace("w\n", "truncated\n"),
    "unsafe source": EMBEDDING.replace("w\n", "../../elsewhere\n"),
    "GPU only": f"{EMBEDDING}precision: fp16\n",
    "unknown step": ENSEMBLE.format("w", "w"),
    "a circle": ENSEMBLE.format("a", "a"),
    "too heavy": EMBEDDING,
}
PARTNERS = {**KINDS, "a circle of two": ENSEMBLE.format("a", "b"), "an ensemble of the other": ENSEMBLE}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One project, whose models every case rewrites."""
    root = tmp_path_factory.mktemp("project")
    served = "kind: single, model: a"
    data = environment(served)
    data["endpoints"]["f"] = {**data["endpoints"]["e"], "model": "b"}
    write_environment(root, data)
    for name in "ab":
        model = Project(root).model_file(name).parent
        for source, content in {"w": EMPTY_WEIGHTS, "truncated": b"\xff" * 9}.items():
            (model / source).mkdir(parents=True)
            (model / source / "model.safetensors").write_bytes(content)
    return root


def write(folder: Path, name: str, kind: str) -> None:
    text = PARTNERS[kind]
    if kind == "an ensemble of the other":
        text = ENSEMBLE.format("a", "a")
    file = Project(folder).model_file(name)
    head = "" if kind == "wrong name" else f"name: {name}\n"
    file.write_text(f"{head}description: For tests.\n{text}")


def lock_heavy(folder: Path, names: list[str]) -> None:
    """Lock artifacts with requests above every limit; their sizes count while they are up to date."""
    project = Project(folder)
    locked = {}
    for name in names:
        spec_hash = model_hash(name, load_models(project, name))
        entry = LockedArtifact(
            digest=DIGEST,
            spec_hash=spec_hash,
            archive_bytes=1,
            unpacked_bytes=1,
            item_bytes=ASYNCHRONOUS_BYTES + 1,
        )
        locked[name] = {"cpu": entry}
    write_lock(project.lock_file(NAME), Lock(models=locked))


def said(folder: Path, pair: tuple[str, str]) -> set[FileViolation]:
    for name, kind in zip("ab", pair, strict=True):
        write(folder, name, kind)
    lock_heavy(folder, [name for name, kind in zip("ab", pair, strict=True) if kind == "too heavy"])
    try:
        load_workspace(Project(folder), NAME)
    except InvalidFilesError as error:
        return set(error.violations)
    return set()


def of_first(folder: Path, violations: set[FileViolation]) -> set[FileViolation]:
    """Return what is said of the model `a`, and of the endpoint that serves it."""
    model = Project(folder).model_file("a").parent
    return {
        violation
        for violation in violations
        if violation.file.is_relative_to(model) or violation.field.startswith("endpoints.e")
    }


@pytest.mark.parametrize("kind", KINDS)
def test_other_models_do_not_change_what_is_said_of_one(folder: Path, kind: str) -> None:
    alone = of_first(folder, said(folder, (kind, "valid")))
    assert bool(alone) is (kind != "valid")
    for partner in PARTNERS:
        assert of_first(folder, said(folder, (kind, partner))) == alone, partner


def test_a_damaged_lock_hides_no_invalid_model(folder: Path) -> None:
    alone = said(folder, ("unknown key", "truncated weights"))
    assert len(alone) == 2
    lock = Project(folder).lock_file(NAME)
    lock.write_text("models: 3\n")
    damaged = {
        violation for violation in validate_project(ProjectFiles(Project(folder))) if violation.file != lock
    }
    assert alone <= damaged
