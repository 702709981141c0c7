"""Every Hugging Face recipe, from model.yaml to an artifact served by a real Triton in both hosting modes."""

from pathlib import Path

import numpy as np
import pytest

from model_build.build import BuildFolders, build_model
from model_build.recipes import recipe_for
from tests.model_build.tiny import TEXTS, write_model_file
from tests.model_build.tiny_tasks import (
    LABELS,
    QUESTIONS,
    save_image_model,
    save_text_model,
)
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Document, load_document
from tritonstack.records.manifests import Manifest
from tritonstack.spec.models.model import ModelSpec

PAIRS = tuple(f'{{question: "{question}", context: "{context}"}}' for question, context in QUESTIONS)


def model_of(
    folder: Path, *, recipe: str, tests: tuple[str, ...] = TEXTS, extra: str = ""
) -> Document[ModelSpec]:
    file = write_model_file(folder, recipe=recipe, source=folder / "weights", tests=tests, extra=extra)
    return load_document(file, ModelSpec)


def build(model: Document[ModelSpec], folders: BuildFolders) -> Manifest:
    manifest = build_model(model=model, folders=folders).manifest
    assert {report.stage for report in manifest.parity} == {"graph", "served"}
    environments = list((folders.cache / "environments").glob("*/"))
    assert len(environments) == len(manifest.environments), "an unneeded environment was packed"
    return manifest


def outputs_of(manifest: Manifest) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(output.name, output.datatype, output.shape) for output in manifest.outputs]


@pytest.mark.soak
def test_text_classification(tmp_path, folders):
    save_text_model(tmp_path / "weights", "DistilBertForSequenceClassification", labels=LABELS)
    manifest = build(model_of(tmp_path, recipe="kind: text-classification, max_length: 24"), folders)
    assert outputs_of(manifest) == [("scores", "FP32", (3,))]
    assert manifest.outputs[0].labels == tuple(LABELS.values())
    assert [tensor.name for tensor in manifest.inputs] == ["TEXT"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("options", "parts"),
    [("", {"tiny", "model"}), (", one_model: false", {"tiny", "tokenizer", "model"})],
)
def test_text_pair_classification(tmp_path, folders, options, parts):
    save_text_model(tmp_path / "weights", "BertForSequenceClassification", labels=LABELS)
    pairs = tuple(f'{{text: "{first}", text_pair: "{second}"}}' for first, second in QUESTIONS)
    recipe = f"kind: text-pair-classification, max_length: 24{options}"
    manifest = build(model_of(tmp_path, recipe=recipe, tests=pairs), folders)
    assert outputs_of(manifest) == [("scores", "FP32", (3,))]
    assert [tensor.name for tensor in manifest.inputs] == ["TEXT", "TEXT_PAIR"]
    assert {file.path.partition("/")[0] for file in manifest.files} == parts


@pytest.mark.soak
@pytest.mark.parametrize("architecture", ["BertForQuestionAnswering", "RobertaForQuestionAnswering"])
def test_question_answering(tmp_path, folders, architecture):
    save_text_model(tmp_path / "weights", architecture)
    model = model_of(tmp_path, recipe="kind: question-answering, max_length: 40", tests=PAIRS)
    manifest = build(model, folders)
    assert [tensor.name for tensor in manifest.inputs] == ["QUESTION", "CONTEXT"]
    assert [name for name, _, _ in outputs_of(manifest)] == ["answer", "score", "start", "end"]
    assert {file.path.partition("/")[0] for file in manifest.files} == {
        "tiny",
        "tokenizer",
        "model",
        "answer",
    }


@pytest.mark.soak
@pytest.mark.parametrize("form", ["image", "pixels"])
def test_image_classification(tmp_path, folders, form):
    from model_build.exporters.image_preparation import encoded  # imports slowly

    save_image_model(tmp_path / "weights")
    random = np.random.default_rng(2)
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(encoded(random.integers(0, 256, (50, 40, 3), dtype=np.uint8)))
    recipe = f"kind: image-classification, input: {form}"
    manifest = build(model_of(tmp_path, recipe=recipe, tests=("image: a.png", "image: b.png")), folders)
    assert outputs_of(manifest) == [("scores", "FP32", (3,))]
    assert [tensor.name for tensor in manifest.inputs] == ["IMAGE" if form == "image" else "pixel_values"]
    assert manifest.target == "cpu"


@pytest.mark.soak
def test_torchscript_of_texts_is_reproducible(tmp_path, folders):
    """Callers see the names of an ONNX graph, and two builds give the same bytes."""
    save_text_model(tmp_path / "weights", "BertForSequenceClassification", labels=LABELS)
    model = model_of(tmp_path, recipe="kind: text-classification, max_length: 24, format: torchscript")
    manifest = build(model, folders)
    assert outputs_of(manifest) == [("scores", "FP32", (3,))]
    assert "model/1/model.pt" in {file.path for file in manifest.files}
    other_folders = BuildFolders(tmp_path / "other", folders.cache, folders.server)
    assert build(model, other_folders).digest == manifest.digest


@pytest.mark.soak
def test_labels_and_tensors_of_model_yaml(tmp_path, folders):
    save_text_model(tmp_path / "weights", "BertForSequenceClassification", labels=LABELS)
    recipe = "kind: text-classification, max_length: 24, input: tokens"
    labeled = model_of(tmp_path, recipe=recipe, extra="tensors: {scores: {labels: [a, b, c]}}\n")
    assert build(labeled, folders).outputs[0].labels == ("a", "b", "c")
    misspelled = model_of(tmp_path, recipe=recipe, extra="tensors: {score: {labels: [a, b, c]}}\n")
    with pytest.raises(InvalidFilesError, match=r"unknown tensor 'score'(.|\n)*did you mean 'scores'"):
        build_model(model=misspelled, folders=folders)


@pytest.mark.parametrize("name", ["tokenizer", "model", "answer"])
def test_names_of_ensemble_steps_are_reserved(tmp_path, name):
    file = write_model_file(tmp_path, recipe="kind: question-answering", source=tmp_path, tests=PAIRS)
    file.write_text(file.read_text().replace("name: tiny", f"name: {name}"))
    with pytest.raises(InvalidFilesError, match=r"model.yaml:1: name: .*reserved for a part"):
        recipe_for(load_document(file, ModelSpec))


def test_a_model_without_batches_is_rejected(tmp_path):
    file = write_model_file(tmp_path, recipe="kind: text-classification", source=tmp_path, tests=TEXTS)
    file.write_text(file.read_text().replace("max_batch: 4", "max_batch: 0"))
    with pytest.raises(InvalidFilesError, match=r"batching\.max_batch: .*support batches"):
        recipe_for(load_document(file, ModelSpec))


def test_a_missing_test_image(tmp_path):
    tests = ("image: missing.png",)
    model = model_of(tmp_path, recipe="kind: image-classification", tests=tests)
    with pytest.raises(InvalidFilesError, match=r"test_inputs.*file not found.*missing\.png"):
        recipe_for(model)
