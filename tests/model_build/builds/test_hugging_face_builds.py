"""Every Hugging Face recipe, from model.yaml to an artifact served by a real Triton in both hosting modes."""

from pathlib import Path
from typing import Any

import pytest

from model_build.build import BuildFolders, build_model
from model_build.recipes import recipe_for
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny import TEXTS
from tests.model_build.tiny_tasks import (
    LABELS,
    QUESTIONS,
    TOKEN_LABELS,
    save_image_model,
    save_pictures,
    save_text_model,
)
from tritonstack.base.errors import InvalidFilesError
from tritonstack.files.records.manifests import Manifest

TEXT = {"kind": "text-classification", "max_length": 24}
PAIR = {"kind": "text-pair-classification", "max_length": 24}
READER = {"kind": "question-answering", "max_length": 40}
TAGGER = {"kind": "token-classification", "max_length": 24}
STATES = {"kind": "feature-extraction", "max_length": 24}
QUESTION_INPUTS = [{"question": question, "context": context} for question, context in QUESTIONS]
TESTS: dict[str, list[Any]] = {
    "text-classification": list(TEXTS),
    "token-classification": list(TEXTS),
    "feature-extraction": list(TEXTS),
    "text-pair-classification": [{"text": first, "text_pair": second} for first, second in QUESTIONS],
    "question-answering": QUESTION_INPUTS,
    "image-classification": [{"image": "a.png"}, {"image": "b.png"}],
}
BERT = "BertForSequenceClassification"
TEXTS_IN, PAIRS_IN, QUESTIONS_IN = ["TEXT"], ["TEXT", "TEXT_PAIR"], ["QUESTION", "CONTEXT"]
SCORES, TAGS = {"scores": (3,)}, {"scores": (-1, 4), "offsets": (-1, 2)}
HIDDEN = {"last_hidden_state": (-1, 32), "attention_mask": (-1,)}
SPANS = {"answer": (1,), "score": (1,), "start": (1,), "end": (1,)}
SPAN_PARTS = {"tiny", "tokenizer", "model", "answer"}


def build(folder: Path, recipe: dict[str, Any], folders: BuildFolders, **more: Any) -> Manifest:
    model = write_supplied(folder, recipe, test_inputs=TESTS[recipe["kind"]], **more)
    manifest = build_model(model=model, folders=folders).manifest
    assert {report.stage for report in manifest.parity} == {"graph", "served"}
    return manifest


@pytest.mark.soak
@pytest.mark.parametrize(
    ("recipe", "architecture", "labels", "inputs", "outputs", "parts"),
    [
        (TEXT, "DistilBertForSequenceClassification", LABELS, TEXTS_IN, SCORES, {"tiny", "model"}),
        (PAIR, BERT, LABELS, PAIRS_IN, SCORES, {"tiny", "model"}),
        ({**PAIR, "one_model": False}, BERT, LABELS, PAIRS_IN, SCORES, {"tiny", "tokenizer", "model"}),
        (TAGGER, "BertForTokenClassification", TOKEN_LABELS, TEXTS_IN, TAGS, {"tiny", "tokenizer", "model"}),
        (READER, "RobertaForQuestionAnswering", None, QUESTIONS_IN, SPANS, SPAN_PARTS),
        # T5's attention is exported unfused, because the fused form cannot be decomposed.
        (STATES, "T5EncoderModel", None, TEXTS_IN, HIDDEN, {"tiny", "tokenizer", "model"}),
    ],
)
def test_texts(tmp_path, folders, recipe, architecture, labels, inputs, outputs, parts):
    save_text_model(tmp_path / "weights", architecture, labels=labels)
    manifest = build(tmp_path, recipe, folders)
    assert [tensor.name for tensor in manifest.inputs] == inputs
    assert {tensor.name: tensor.shape for tensor in manifest.outputs} == outputs
    assert {file.path.partition("/")[0] for file in manifest.files} == parts
    if labels:
        scores = manifest.outputs[0]
        assert (scores.datatype, scores.labels) == ("FP32", tuple(labels.values()))


@pytest.mark.soak
@pytest.mark.parametrize(("form", "name"), [("image", "IMAGE"), ("pixels", "pixel_values")])
def test_image_classification(tmp_path, folders, form, name):
    save_image_model(tmp_path / "weights")
    save_pictures(tmp_path, "a.png", "b.png")
    manifest = build(tmp_path, {"kind": "image-classification", "input": form}, folders)
    assert [(tensor.name, tensor.shape) for tensor in manifest.outputs] == [("scores", (3,))]
    assert [tensor.name for tensor in manifest.inputs] == [name]
    assert manifest.target == "cpu"


@pytest.mark.soak
def test_torchscript_of_texts_is_reproducible(tmp_path, folders):
    """Callers see the names of an ONNX graph, and two builds give the same bytes."""
    save_text_model(tmp_path / "weights", BERT, labels=LABELS)
    recipe = {**TEXT, "format": "torchscript"}
    manifest = build(tmp_path, recipe, folders)
    assert [(tensor.name, tensor.shape) for tensor in manifest.outputs] == [("scores", (3,))]
    assert "model/1/model.pt" in {file.path for file in manifest.files}
    other_folders = BuildFolders(tmp_path / "other", folders.cache, folders.server)
    assert build(tmp_path, recipe, other_folders).digest == manifest.digest


@pytest.mark.parametrize(
    ("recipe", "more", "line", "field"),
    [
        *((READER, {"name": name}, 1, "name") for name in ("tokenizer", "model", "answer")),
        (TEXT, {"batching": {"max_batch": 0}}, 5, "batching.max_batch"),
        ({"kind": "image-classification"}, {}, 6, "test_inputs.0.image"),  # there is no such file
    ],
)
def test_files_that_are_rejected(tmp_path, recipe, more, line, field):
    with pytest.raises(InvalidFilesError) as caught:
        recipe_for(write_supplied(tmp_path, recipe, test_inputs=TESTS[recipe["kind"]][:1], **more))
    (violation,) = caught.value.violations
    assert (violation.line, violation.field) == (line, field)
