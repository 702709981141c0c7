"""Precision levels, from model.yaml to a served archive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from model_build.build import BuildFolders, build_model
from model_build.store.artifacts import read_manifest
from tests.model_build.tiny import TEXTS, trusting
from tests.model_build.tiny_tasks import LABELS, save_text_model
from tritonstack.base.documents import load_document
from tritonstack.spec.models.model import ModelSpec

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    return save_text_model(folder, "BertForSequenceClassification", labels=LABELS)


def write_classifier(folder: Path, source: Path, precision: str) -> Path:
    texts = "".join(f"  - {text}\n" for text in TEXTS)
    file = folder / "model.yaml"
    file.write_text(
        f"name: moods\ndescription: Moods.\nsource: file://{source}\nprecision: {precision}\n"
        "recipe: {kind: text-classification, max_length: 24}\nbatching: {max_batch: 4}\n"
        f"test_inputs:\n{texts}{trusting(f'file://{source}')}"
    )
    return file


def test_auto_serves_one_precision_and_records_all(
    tmp_path: Path, classifier: Path, folders: BuildFolders
) -> None:
    file = write_classifier(tmp_path, classifier, "auto")
    result = build_model(model=load_document(file, ModelSpec), folders=folders)
    manifest = read_manifest(result.artifact_dir)
    assert [candidate.name for candidate in manifest.candidates] == ["fp32", "int8, GELU fused", "int8"]
    assert all(candidate.parity for candidate in manifest.candidates), "each can be made of this graph"
    (kept,) = (candidate for candidate in manifest.candidates if candidate.kept)
    assert (kept.precision, kept.parity) == (manifest.precision, manifest.parity[0])


def test_int8_is_reproducible(tmp_path: Path, classifier: Path, folders: BuildFolders) -> None:
    file = write_classifier(tmp_path, classifier, "int8")
    model = load_document(file, ModelSpec)
    first = build_model(model=model, folders=folders)
    again = build_model(model=model, folders=replace(folders, artifacts=tmp_path / "again"))
    assert first.manifest.digest == again.manifest.digest
    assert not again.reused


def test_a_recorded_choice_reproduces_the_artifact_and_others_are_not_reused(
    tmp_path: Path, classifier: Path, folders: BuildFolders
) -> None:
    file = write_classifier(tmp_path, classifier, "auto")
    with file.open("a") as stream:
        stream.write("accept: {cosine: 0.9, absolute: 0.5}\n")
    model = load_document(file, ModelSpec)
    first = build_model(model=model, folders=folders).manifest
    assert first.choices == {"moods": "fp32"}, "a tiny graph gains nothing"
    other = build_model(model=model, folders=folders, choices={"moods": "int8"})
    assert (other.manifest.choices, other.manifest.precision) == ({"moods": "int8"}, "int8")
    assert not other.reused
    assert other.manifest.digest != first.digest
    again = build_model(model=model, folders=folders, choices={"moods": "fp32"})
    assert (again.reused, again.manifest.digest) == (True, first.digest)
