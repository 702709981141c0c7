"""Unused tensors: parts of the model are rejected, heads of other tasks are listed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from torch.nn import Module

from model_build.errors import FieldError
from model_build.exporters.loading import check_unused
from tests.model_build.frameworks import change_json, framework_of
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny_tasks import LABELS, save_image_model, save_text_model
from tests.model_build.written_repositories import violation_of, write_repository

REASON = "the last layers are cut off on purpose"
RECIPE = {"kind": "feature-extraction", "max_length": 24}


def load(folder: Path, kind: str = "feature-extraction", **allow_unused: str) -> Any:
    return framework_of(folder, kind, max_length=24, allow_unused=allow_unused)


def save(folder: Path, architecture: str, *tensors: str, **config: Any) -> Path:
    """Save a model, further tensors, and changes of its configuration."""
    save_text_model(folder, architecture, labels=LABELS if "Classification" in architecture else None)
    file = folder / "model.safetensors"
    more = {name: np.zeros(2, np.float32) for name in tensors}
    save_file({**load_file(file), **more}, file, metadata={"format": "pt"})
    return change_json(folder / "config.json", **config)


BERT = "BertForSequenceClassification"
LOST: dict[str, tuple[str, str, tuple[str, ...], dict[str, Any], str]] = {
    "encoder": ("feature-extraction", "BertModel", (), {"num_hidden_layers": 1}, "encoder.layer.1.* (16)"),
    "encoder of a language model": (
        *("feature-extraction", "BertForMaskedLM", (), {"num_hidden_layers": 1}),
        "bert.encoder.layer.1.* (16)",
    ),
    "an adapter": ("feature-extraction", "BertModel", ("adapter.weight",), {}, "adapter.weight (1)"),
    "another tower": ("feature-extraction", "BertModel", ("visual.proj",), {}, "visual.proj (1)"),
    "encoder of a classifier": (
        *("text-classification", BERT, (), {"num_hidden_layers": 1}),
        "bert.encoder.layer.1.* (16)",
    ),
    "another classifier": (
        "text-classification",
        BERT,
        ("classifier.out.weight",),
        {},
        "classifier.out.weight",
    ),
}


@pytest.mark.parametrize(("kind", "architecture", "tensors", "config", "lost"), LOST.values(), ids=LOST)
def test_unused_parts_of_a_model_are_rejected_unless_allowed(
    tmp_path, kind, architecture, tensors, config, lost
):
    folder = save(tmp_path, architecture, *tensors, **config)
    with pytest.raises(FieldError) as caught:
        load(folder, kind)
    assert lost in caught.value.message
    pattern = tensors[0] if tensors else lost.partition(" ")[0]
    assert f"{{'{pattern}': <reason>}}" in str(caught.value.remedy)
    assert any(lost in group for group in load(folder, kind, **{pattern: REASON}).unused_weights)


@pytest.mark.parametrize(
    ("architecture", "dropped"),
    [
        ("BertForMaskedLM", "cls.predictions"),
        ("BertForPreTraining", "cls.seq_relationship"),
        ("DistilBertForMaskedLM", "vocab_transform"),
        ("BertForTokenClassification", "classifier"),
        ("ModernBertForMaskedLM", "decoder.bias"),
    ],
)
def test_heads_of_other_tasks_are_listed(tmp_path, architecture, dropped):
    loaded = load(save_text_model(tmp_path, architecture))
    assert any(group.startswith(dropped) for group in loaded.unused_weights)


def test_poolers_and_old_buffers_are_listed(tmp_path):
    pooler = ("bert.pooler.dense.weight", "bert.pooler.dense.bias")
    folder = save(tmp_path, "BertForTokenClassification", "bert.embeddings.position_ids", *pooler)
    unused = load(folder, "token-classification").unused_weights
    assert set(unused) <= {"bert.embeddings.position_ids (1)", "bert.pooler.dense.* (2)"}
    assert "bert.pooler.dense.* (2)" in unused


def test_parts_of_a_decoder_are_not_its_vocabulary_projection():
    assert check_unused(Module(), ["decoder.bias", "final_logits_bias", "embed_out.weight"], allowed={})
    for name in ("decoder.layers.0.fc1.weight", "encoder.decoder.weight", "decoder.embed_tokens.weight"):
        with pytest.raises(FieldError):
            check_unused(Module(), [name], allowed={})


def test_a_pattern_that_matches_nothing_is_rejected():
    with pytest.raises(FieldError, match=r"'decoder\.\*'") as caught:
        check_unused(object(), [], allowed={"decoder.*": REASON})
    assert caught.value.field == ("allow_unused_weights", "decoder.*")


def test_a_build_error_names_the_line_and_the_allowed_patterns(tmp_path):
    save(tmp_path / "weights", "BertModel", num_hidden_layers=1)
    recipe = {**RECIPE, "input": "tokens", "format": "torchscript"}
    violation = violation_of(write_supplied(tmp_path, recipe, test_inputs=["a"]), tmp_path)
    assert (violation.line, violation.field) == (3, "source")
    allowed = {"encoder.layer.*": REASON}
    model = write_supplied(tmp_path, recipe, test_inputs=["a"], allow_unused_weights=allowed)
    assert write_repository(model, tmp_path / "other").unused_weights == ("encoder.layer.1.* (16)",)


def test_incomplete_image_model_is_rejected(tmp_path):
    folder = change_json(save_image_model(tmp_path) / "config.json", num_hidden_layers=1)
    with pytest.raises(FieldError, match=r"vit\.layers\.1"):
        framework_of(folder, "image-classification")
