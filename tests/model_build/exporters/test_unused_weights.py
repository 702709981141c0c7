"""Unused tensors: parts of the model are rejected, heads of other tasks are listed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from torch.nn import Module

from model_build.errors import FieldError
from model_build.exporters.image_framework import ImageFramework
from model_build.exporters.text_framework import TextFramework
from model_build.exporters.unused_weights import check_unused
from model_build.sources import FetchedSource
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny import write_model_file
from tests.model_build.tiny_tasks import LABELS, save_image_model, save_text_model
from tests.model_build.written_repositories import write_repository
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import (
    FeatureExtractionRecipe,
    ImageClassificationRecipe,
    TextClassificationRecipe,
    TokenClassificationRecipe,
)

REASON = "the last layers are cut off on purpose"
FEATURES = FeatureExtractionRecipe(kind="feature-extraction", max_length=24)


def load(folder: Path, recipe: Any = FEATURES, **allow_unused: str) -> TextFramework:
    return TextFramework(source=FetchedSource(folder, "", ""), recipe=recipe, allow_unused=allow_unused)


def change_config(folder: Path, **changes: Any) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return folder


def add_tensors(folder: Path, *names: str) -> Path:
    file = folder / "model.safetensors"
    more = {name: np.zeros(2, np.float32) for name in names}
    save_file({**load_file(file), **more}, file, metadata={"format": "pt"})
    return folder


HALVES: dict[str, tuple[str, dict[str, Any], str]] = {
    "encoder": ("BertModel", {"num_hidden_layers": 1}, "encoder.layer.1.*"),
    "encoder of a language model": ("BertForMaskedLM", {"num_hidden_layers": 1}, "bert.encoder.layer.1.*"),
    "another architecture": ("DistilBertModel", {"n_layers": 1}, "transformer.layer.1.*"),
}


@pytest.mark.parametrize(("architecture", "changes", "lost"), HALVES.values(), ids=HALVES)
def test_incomplete_model_is_rejected(tmp_path, architecture, changes, lost):
    folder = change_config(save_text_model(tmp_path, architecture), **changes)
    with pytest.raises(FieldError) as caught:
        load(folder)
    assert f": {lost} (16)" in caught.value.message
    assert f"{{'{lost}': <reason>}}" in str(caught.value.remedy)
    assert load(folder, **{lost: REASON}).unused_weights[-1 if "bert." not in lost else 0] == f"{lost} (16)"


@pytest.mark.parametrize(
    ("architecture", "dropped"),
    [
        ("BertForMaskedLM", "cls.predictions"),
        ("BertForPreTraining", "cls.seq_relationship"),
        ("RobertaForMaskedLM", "lm_head"),
        ("DistilBertForMaskedLM", "vocab_transform"),
        ("BertForTokenClassification", "classifier"),
        ("BertForQuestionAnswering", "qa_outputs"),
        ("ModernBertForMaskedLM", "decoder.bias"),
    ],
)
def test_heads_of_other_tasks_are_listed(tmp_path, architecture, dropped):
    loaded = load(save_text_model(tmp_path, architecture))
    assert any(group.startswith(dropped) for group in loaded.unused_weights)


def test_poolers_and_old_buffers_are_listed(tmp_path):
    folder = save_text_model(tmp_path, "BertForTokenClassification", labels=LABELS)
    add_tensors(folder, "bert.embeddings.position_ids", "bert.pooler.dense.weight", "bert.pooler.dense.bias")
    loaded = load(folder, TokenClassificationRecipe(kind="token-classification", max_length=24))
    assert set(loaded.unused_weights) <= {"bert.embeddings.position_ids (1)", "bert.pooler.dense.* (2)"}
    assert "bert.pooler.dense.* (2)" in loaded.unused_weights


@pytest.mark.parametrize("name", ["adapter.weight", "encoder.layer.0.lora_A.weight", "visual.proj"])
def test_unused_tensors_without_a_known_task_are_rejected(tmp_path, name):
    folder = add_tensors(save_text_model(tmp_path, "BertModel"), name)
    with pytest.raises(FieldError) as caught:
        load(folder)
    assert f": {name} (1)" in caught.value.message
    assert load(folder, **{name: REASON}).unused_weights == (f"{name} (1)",)


@pytest.mark.parametrize(
    ("changes", "tensors", "lost"),
    [
        ({"num_hidden_layers": 1}, (), r"bert\.encoder\.layer\.1\.\* \(16\)"),
        ({}, ("classifier.out_proj.weight",), r"classifier\.out_proj\.weight"),
    ],
)
def test_unused_parts_of_a_classifier_are_rejected(tmp_path, changes, tensors, lost):
    folder = save_text_model(tmp_path, "BertForSequenceClassification", labels=LABELS)
    add_tensors(change_config(folder, **changes), *tensors)
    with pytest.raises(FieldError, match=lost):
        load(folder, TextClassificationRecipe(kind="text-classification", max_length=24))


def test_parts_of_a_decoder_are_not_its_vocabulary_projection():
    assert check_unused(Module(), ["decoder.bias", "final_logits_bias", "embed_out.weight"], allowed={})
    for name in ("decoder.layers.0.fc1.weight", "encoder.decoder.weight", "decoder.embed_tokens.weight"):
        with pytest.raises(FieldError):
            check_unused(Module(), [name], allowed={})


def test_a_pattern_that_matches_nothing_is_rejected():
    with pytest.raises(FieldError, match=r"'decoder\.\*'") as caught:
        check_unused(object(), [], allowed={"decoder.*": REASON})
    assert caught.value.field == ("allow_unused_weights", "decoder.*")


def write(folder: Path, source: Path, extra: str = "") -> Any:
    recipe = "kind: feature-extraction, input: tokens, format: torchscript, max_length: 24"
    place = f"file://{source.relative_to(folder)}"
    return load_document(write_model_file(folder, recipe=recipe, source=place, extra=extra), ModelSpec)


def test_a_build_error_names_the_line_and_the_allowed_patterns(tmp_path):
    folder = change_config(save_text_model(tmp_path / "weights", "BertModel"), num_hidden_layers=1)
    with pytest.raises(InvalidFilesError) as caught:
        write_repository(write(tmp_path, folder), tmp_path / "work")
    (violation,) = caught.value.violations
    assert (violation.line, violation.field) == (3, "source")
    extra = f"allow_unused_weights: {{'encoder.layer.*': {REASON}}}\n"
    repository = write_repository(write(tmp_path, folder, extra), tmp_path / "other")
    assert repository.unused_weights == ("encoder.layer.1.* (16)",)


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ("allow_unused_weights: {'x.*': why}\n", "allow_unused_weights.x.*"),
        ("allow_unused_weights: ['x.*']\n", "allow_unused_weights"),
    ],
)
def test_allowed_unused_weights_need_a_reason(tmp_path, extra, field):
    with pytest.raises(InvalidFilesError) as caught:
        write(tmp_path, tmp_path, extra)
    assert [violation.field for violation in caught.value.violations] == [field]


def test_recipes_that_load_no_tensors_by_name_leave_none_unused(tmp_path):
    allowed = {"allow_unused_weights": {"x.*": REASON}, "test_inputs": [{"random": {}}]}
    with pytest.raises(InvalidFilesError) as caught:
        write_supplied(tmp_path, {"kind": "onnx"}, **allowed)
    assert [violation.field for violation in caught.value.violations] == ["allow_unused_weights"]


def test_incomplete_image_model_is_rejected(tmp_path):
    folder = change_config(save_image_model(tmp_path), num_hidden_layers=1)
    recipe = ImageClassificationRecipe(kind="image-classification")
    with pytest.raises(FieldError, match=r"vit\.layers\.1"):
        ImageFramework(source=FetchedSource(folder, "", ""), recipe=recipe)
