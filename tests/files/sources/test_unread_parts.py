"""What a recipe does not read of its source is an error; ordinary folders have no such part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.projects import EMPTY_WEIGHTS
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document, parse_document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.sources.contents import check_model, source_violations

Files = dict[str, Any]
INPUTS = {
    "text-pair-classification": "{text: a, text_pair: b}",
    "question-answering": "{question: a, context: b}",
    "image-classification": "{image: a.png}",
    "image-embedding": "{image: a.png}",
}
REASON = "measured on our own test set"
SENTENCE = {
    "modules.json": [{"type": "sentence_transformers.models.Transformer", "path": ""}],
    "config_sentence_transformers.json": {"__version__": {}, "prompts": {}, "similarity_fn_name": "cosine"},
    "sentence_bert_config.json": {"max_seq_length": 128, "do_lower_case": False},
    "1_Pooling/config.json": {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True},
    "2_Dense/config.json": {"in_features": 8, "out_features": 4, "bias": True, "activation_function": "x"},
    "2_Dense/model.safetensors": EMPTY_WEIGHTS,
    "3_Normalize/config.json": {},
}
ORDINARY = {
    **dict.fromkeys(
        ("README.md", ".gitattributes", "LICENSE", "vocab.txt", "merges.txt", "spiece.model"), b""
    ),
    **dict.fromkeys(("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "scaler.pt"), b""),
    **dict.fromkeys(
        ("optimizer_0/a.distcp", "checkpoint-500/adapter_model.safetensors", "runs/events.1"), b""
    ),
    **dict.fromkeys(("pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "rust_model.ot"), b""),
    **dict.fromkeys(("onnx/model.onnx", "openvino/openvino_model.bin", "model-Q4.gguf", "model.onnx"), b""),
    **dict.fromkeys(
        ("model.fp16.safetensors", "consolidated.safetensors", "original/consolidated.00.pth"), b""
    ),
    "eval_results.json": {},
    "trainer_state.json": {},
    "special_tokens_map.json": {},
    "config.json": {"model_type": "bert", "torch_dtype": "float32", "quantization_config": None},
    "tokenizer.json": {},
    "tokenizer_config.json": {"truncation_side": "left"},
}


def document(folder: Path, files: Files, recipe: str, **overrides: str) -> Document[ModelSpec]:
    """Write a source beside a model file; weights are added unless `files` names some."""
    source = {"model.safetensors": EMPTY_WEIGHTS, **files}
    for name, content in source.items():
        if content is None:
            continue
        file = folder / "w" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    sent = INPUTS.get(recipe, "a text")
    text = f"""\
name: m
description: A model.
source: file://w
test_inputs: [{sent}]
recipe:
  kind: {recipe}
  overrides: {json.dumps(overrides)}
"""
    if recipe == "vllm":
        text += "batching: {max_batch: 0}\n"
    (folder / "a.png").touch()
    return parse_document(text, folder / "model.yaml", ModelSpec)


def violations(folder: Path, files: Files, recipe: str, **overrides: str) -> list[FileViolation]:
    return list(source_violations(check_model(document(folder, files, recipe, **overrides))))


@pytest.mark.parametrize(
    ("recipe", "files", "key"),
    [
        (
            "text-embedding",
            {"adapter_config.json": {}, "adapter_model.safetensors": b""},
            "adapter_config.json",
        ),
        ("vllm", {"adapter_config.json": {}, "adapter_model.bin": b""}, "adapter_config.json"),
        ("text-generation", {"adapter_config.json": {}}, "adapter_config.json"),
        ("text-embedding", {"config_setfit.json": {}, "model_head.pkl": b""}, "model_head.pkl"),
        ("text-classification", {"model_head.pkl": b""}, "model_head.pkl"),
        ("text-classification", {"model_head.safetensors": b""}, "model_head.safetensors"),
        ("token-classification", {"crf.bin": b""}, "crf.bin"),
        ("image-classification", {"scaler.joblib": b""}, "scaler.joblib"),
        ("question-answering", {"pytorch_lora_weights.safetensors": b""}, "pytorch_lora_weights.safetensors"),
        (
            "feature-extraction",
            {
                "model.safetensors": None,
                "model.safetensors.index.json": {"weight_map": {"a": "part-1.safetensors"}},
                "part-1.safetensors": EMPTY_WEIGHTS,
                "part-2.safetensors": EMPTY_WEIGHTS,
            },
            "part-2.safetensors",
        ),
        ("text-generation", {"config.json": {"quantization_config": {"bits": 4}}}, "quantization_config"),
        ("text-embedding", {"config.json": {"quantization_config": {"bits": 4}}}, "quantization_config"),
        (
            "text-embedding",
            {**SENTENCE, "config_sentence_transformers.json": {"matryoshka_dims": [4]}},
            "matryoshka_dims",
        ),
        ("text-embedding", {**SENTENCE, "sentence_bert_config.json": {"layer": 3}}, "layer"),
        ("text-embedding", {**SENTENCE, "0_Transformer/sentence_bert_config.json": {"layer": 3}}, "layer"),
        ("text-embedding", {**SENTENCE, "1_Pooling/config.json": {"layers": [1, 2]}}, "layers"),
        ("text-embedding", {**SENTENCE, "2_Dense/config.json": {"dropout": 0.5}}, "dropout"),
        ("text-pair-classification", {"config_sentence_transformers.json": {"bias": 1.0}}, "bias"),
        ("text-embedding", {"config_setfit.json": {"normalize_embeddings": True}}, "normalize_embeddings"),
    ],
)
def test_unread_parts_need_a_reason(tmp_path: Path, recipe: str, files: Files, key: str) -> None:
    also = {"model_head.pkl": REASON} if key == "normalize_embeddings" else {}
    (violation,) = violations(tmp_path / "refused", files, recipe, **also)
    assert (violation.field, violation.code) == ("source", "TS304")
    assert f"overrides: {{{key}: <reason>}}" in (violation.remedy or "")
    assert violations(tmp_path / "accepted", files, recipe, **also, **{key: REASON}) == []


@pytest.mark.parametrize(
    "recipe", ["text-embedding", "text-pair-classification", "text-generation", "vllm", "image-embedding"]
)
def test_ordinary_folders_have_no_unread_part(tmp_path: Path, recipe: str) -> None:
    assert violations(tmp_path, {**ORDINARY, **SENTENCE}, recipe) == []


def test_quantized_weights_are_for_vllm(tmp_path: Path) -> None:
    files = {"config.json": {"quantization_config": {"quant_method": "gptq"}}, "quantize_config.json": {}}
    assert violations(tmp_path, files, "vllm") == []


def test_an_adapter_alone_cannot_be_accepted(tmp_path: Path) -> None:
    files = {
        "model.safetensors": None,
        "adapter_config.json": {"base_model_name_or_path": "org/base"},
        "adapter_model.safetensors": EMPTY_WEIGHTS,
    }
    (violation,) = violations(tmp_path, files, "text-classification")
    assert "org/base" in violation.message
    assert "merge_and_unload" in (violation.remedy or "")
    assert "overrides" not in (violation.remedy or "")


def test_an_override_of_nothing_is_reported(tmp_path: Path) -> None:
    (violation,) = violations(tmp_path, {}, "text-embedding", **{"model_head.pkl": REASON})
    assert (violation.field, violation.line) == ("recipe.overrides.model_head.pkl", 7)


def test_a_misspelled_override_is_reported(tmp_path: Path) -> None:
    (violation,) = violations(tmp_path, {}, "text-embedding", poolng=REASON)
    assert violation.field == "recipe.overrides.poolng"
    assert "'pooling'" in (violation.remedy or "")
