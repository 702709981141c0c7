"""Merlin exports: those that become an ensemble answer as their steps do; the others are rejected by name."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.build import build_model
from model_build.repository.config import read_config
from tests.model_build.importing.merlin_exports import (
    BRANCHES,
    FIXED,
    FOREST,
    LISTS,
    PRICE,
    RAGGED,
    RAGGED_TORCH,
    TENSORFLOW_STEP,
    TWO_WORKFLOWS,
    Arrays,
    Column,
    Export,
    Step,
    answers,
    lengths,
    older,
    ragged,
)
from tritonstack import Session
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.base.yaml import load_document
from tritonstack.files.model.model import ModelSpec
from tritonstack.operate.artifacts.importing import ImportOptions, ImportResult, import_model

STEP = "0_transformworkflowtriton"
TRUST = "The pickles were written by this very test."
EXPORTS: dict[str, tuple[Export, Arrays]] = {
    "ragged": (RAGGED_TORCH, RAGGED),
    "two-workflows": (TWO_WORKFLOWS, FIXED),
    "branches": (BRANCHES, FIXED),
    "lengths": (older("lengths"), lengths("lengths")),
}


def save_answers(file: Path, export: Export, inputs: Arrays) -> Path:
    """Write one request with the answers of the steps, run one after the other."""
    right = {f"outputs/{name}": array[None] for name, array in answers(export, inputs).items()}
    arrays: dict[str, Any] = {**{name: array[None] for name, array in inputs.items()}, **right}
    np.savez(file, **arrays)
    return file


def convert(project: Project, export: Export, folder: Path, **options: Any) -> ImportResult:
    """Import an export as the model `shop`."""
    root = export.write(folder / "export")
    return import_model(
        Session(project), root, ImportOptions(**{"name": "shop", "trust_pickle": TRUST, **options})
    )


def scheduling(project: Project) -> list[tuple[str, dict[str, str], dict[str, str]]]:
    """Return the steps of the ensemble."""
    config = read_config(project.models_dir / "shop/source/shop/config.pbtxt")
    assert config.platform == "ensemble"
    return [
        (step.model_name, dict(step.input_map), dict(step.output_map))
        for step in config.ensemble_scheduling.step
    ]


@pytest.mark.e2e
@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_answers_as_its_steps_do(name, project, tmp_path, folders):
    """The build serves the ensemble in both hosting modes, and compares with the composed steps."""
    export, inputs = EXPORTS[name]
    file = save_answers(tmp_path / "requests.npz", export, inputs)
    convert(project, export, tmp_path, inputs=file)
    built = build_model(model=load_document(project.model_file("shop"), ModelSpec), folders=folders)
    (parity,) = built.manifest.parity
    assert (parity.stage, built.manifest.unverified) == ("served", ())
    assert parity.max_absolute_error < 1e-5
    assert {spec.name for spec in built.manifest.outputs} == answers(export, inputs).keys()


def test_steps_stay_as_they_are_and_the_executor_is_replaced(project, tmp_path):
    result = convert(project, RAGGED_TORCH, tmp_path)
    source = project.models_dir / "shop/source"
    assert sorted(entry.name for entry in source.iterdir()) == [
        "0_transformworkflowtriton",
        "1_predictpytorchtriton",
        "shop",
    ]
    for file in (tmp_path / "export").rglob("*_*/**/*"):
        if file.is_file() and "executor_model" not in file.parts:
            assert (source / file.relative_to(tmp_path / "export")).read_bytes() == file.read_bytes()
    assert result.kind == "Merlin export"
    assert [change.split()[1] for change in result.changes] == ["executor_model,", "output", "output"]
    spec = load_document(project.model_file("shop"), ModelSpec).record
    (first,) = spec.test_inputs
    assert first.inputs is not None
    assert first.inputs["item__offsets"] == [0, 3, 5]
    assert len(first.inputs["item__values"]) == 5


def test_a_tensorflow_step_needs_a_release_with_the_backend(project, tmp_path):
    with pytest.raises(UsageError, match=r"26\.05 .* TensorFlow .* 25\.02"):
        convert(project, TENSORFLOW_STEP, tmp_path, release="26.05")
    assert not (project.models_dir / "shop").exists()
    (tmp_path / "older").mkdir()
    convert(project, TENSORFLOW_STEP, tmp_path / "older", release="24.09")
    assert scheduling(project)[1] == (
        "1_predicttensorflowtriton",
        {"item": "item_0", "price": "price_0"},
        {"click/binary": "click/binary"},
    )


def test_an_ensemble_beside_the_executor_is_kept(project, tmp_path):
    """Merlin up to 0.9 wrote one, and people write one by hand."""
    convert(project, RAGGED_TORCH, tmp_path)
    root = tmp_path / "export"
    (project.models_dir / "shop/source/shop").rename(root / "ensemble_model")
    file = root / "ensemble_model/config.pbtxt"
    file.write_text(file.read_text().replace('"shop"', '"ensemble_model"'))
    result = import_model(Session(project), root, ImportOptions("mine", trust_pickle=TRUST))
    assert result.kind == "Triton repository"
    assert "executor_model" in result.changes[0]
    assert "mine" in result.changes[1]


def test_libraries_that_the_image_lacks_are_named(project, tmp_path):
    root = RAGGED_TORCH.write(tmp_path / "export")
    file = root / "0_transformworkflowtriton/1/model.py"
    file.write_text(f"import nvtabular\nfrom merlin.core import dispatch\n{file.read_text()}")
    result = import_model(Session(project), root, ImportOptions("shop", trust_pickle=TRUST))
    (message,) = [finding.message for finding in result.findings if finding.code == "TS340"]
    assert "merlin, nvtabular" in message


def changed(export: Export, number: int, **changes: Any) -> Export:
    """Return an export with a changed step."""
    steps = list(export.steps)
    steps[number] = replace(steps[number], **changes)
    return replace(export, steps=steps)


FLOAT = Column("item", "INT32", (-1, 3))
LONGER = Column("item", "INT64", (-1, 4))
TORCH, TWO = RAGGED_TORCH, TWO_WORKFLOWS
USER = Column("user", "INT64", (-1, 1))
SAME = replace(TWO, steps=TWO.steps[:2], outputs=[LISTS, PRICE])
FORESTS = [*TWO.steps, Step(FOREST, [PRICE], [PRICE], max_batch=8192)]
REJECTED: Mapping[str, tuple[Export, str]] = {
    "types": (changed(TWO, 1, inputs=[FLOAT, PRICE]), "item is INT32 here, and 0_transformworkflowtriton"),
    "sizes": (changed(TWO, 1, inputs=[LONGER, PRICE]), r"\[-1, 4\] here, .* gives \[-1, 3\]"),
    "casted inputs": (replace(TWO, inputs=[FLOAT, PRICE]), "item is INT64 here, .* takes INT32"),
    "ragged to fixed": (changed(TWO, 0, outputs=[*ragged(), PRICE]), "item: .* ragged"),
    "fixed to ragged": (changed(TORCH, 0, outputs=[LISTS]), "item__values: .* fixed length: item"),
    "two versions of Merlin": (changed(TORCH, 0, outputs=ragged("nnzs")), "item__offsets: .*item__nnzs"),
    "forest": (replace(TWO, steps=FORESTS), "input__0"),
    "operator": (replace(TORCH, operators=["merlin.systems.dag.ops.softmax_sampling"]), "softmax_sampling"),
    "files of an operator": (replace(TORCH, files={"ensemble/model.npz": b""}), "ensemble/model.npz"),
    "computed": (replace(TORCH, outputs=[Column("ordered_ids", "INT64", (-1, 5))]), "gives ordered_ids"),
    "used": (replace(TORCH, inputs=[*ragged(), USER]), "uses user"),
    "made": (changed(TORCH, 1, inputs=[*ragged(), Column("filtered", "INT64", (-1,))]), "gives filtered"),
    "same name": (SAME, "item is the name"),
    "passed through": (replace(TORCH, outputs=[*TORCH.outputs, USER]), "gives user"),
    "no steps": (replace(TORCH, steps=[]), "no steps"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_only_the_executor_can_do_is_rejected(name, project, tmp_path):
    export, message = REJECTED[name]
    with pytest.raises(UsageError, match=message) as caught:
        convert(project, export, tmp_path)
    assert {violation.code for violation in caught.value.violations} == {"TS340"}
    assert all(violation.remedy for violation in caught.value.violations)
    assert sorted(entry.name for entry in project.models_dir.iterdir()) == ["minilm"]


DAMAGES: Mapping[str, tuple[Callable[[Path], Any], str]] = {
    "step": (lambda root: (root / STEP).rename(root / "2_transformworkflowtriton"), "step 0"),
    "graph": (lambda root: (root / "executor_model/1/ensemble/ensemble.pkl").write_bytes(b""), "pickle"),
    "another model": (lambda root: (root / "other/1").mkdir(parents=True), "neither"),
    "configuration": (
        lambda root: (root / "1_predictpytorchtriton/config.pbtxt").write_text("input {"),
        "1_predictpytorchtriton/config.pbtxt:1",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_export_is_rejected(damage, project, tmp_path):
    change, message = DAMAGES[damage]
    root = RAGGED_TORCH.write(tmp_path / "export")
    change(root)
    with pytest.raises(UsageError, match=message):
        import_model(Session(project), root, ImportOptions("shop", trust_pickle=TRUST))
    assert sorted(entry.name for entry in project.models_dir.iterdir()) == ["minilm"]


def test_pickles_need_a_reason(project, tmp_path):
    with pytest.raises(UsageError, match=r"workflow/workflow.pkl") as caught:
        convert(project, RAGGED_TORCH, tmp_path, trust_pickle=None)
    assert caught.value.code == "TS217"
    assert "--trust-pickle" in (caught.value.remedy or "")
    assert sorted(entry.name for entry in project.models_dir.iterdir()) == ["minilm"]
