"""Settings that sentence-transformers saves with a model, in its old and new formats."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from model_build.errors import ExportError
from model_build.exporters.text_framework import TextFramework
from model_build.graphs.running import GraphSession
from model_build.recipes import recipe_for
from model_build.sources import FetchedSource, fetch_source, file_selection
from tests.model_build.tiny import TEXTS, write_model_file
from tests.model_build.written_repositories import write_repository
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.model_fields import Trust
from tritonstack.spec.models.recipes import TextEmbeddingRecipe

MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
FLAGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
HIDDEN = 32
REASON = "measured on our own test set"


def old(*modes: str) -> dict[str, Any]:
    """1_Pooling/config.json as versions before 5.5 write it."""
    return {"word_embedding_dimension": HIDDEN} | {flag: mode in modes for mode, flag in FLAGS.items()}


def new(*modes: str) -> dict[str, Any]:
    """1_Pooling/config.json as versions from 5.5 on write it."""
    pooling = modes[0] if len(modes) == 1 else list(modes)
    return {"embedding_dimension": HIDDEN, "pooling_mode": pooling, "include_prompt": True}


def sentence_model(
    tiny: Path,
    folder: Path,
    modules: Sequence[str] = ("Transformer", "Pooling"),
    *,
    package: str = "sentence_transformers.models",
    transformer: str = "",
    **files: Any,
) -> Path:
    """Add the files that sentence-transformers saves with a model; `files` by name, `__` for a slash."""
    shutil.copytree(tiny, folder / transformer)
    listed = [
        {"idx": n, "name": str(n), "type": f"{package}.{kind}", "path": f"{n}_{kind}" if n else transformer}
        for n, kind in enumerate(modules)
    ]
    contents = {"modules": listed, "1_Pooling__config": old("mean"), **files}
    for name, content in contents.items():
        file = folder / f"{name.replace('__', '/')}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    return folder


def add_dense(folder: Path, sizes: tuple[int, int], *, seed: int = 1, **config: Any) -> dict[str, np.ndarray]:
    """Add the weights of a dense layer, and its configuration."""
    random = np.random.default_rng(seed)
    weights = {
        "linear.weight": random.standard_normal(sizes[::-1]).astype(np.float32),
        "linear.bias": random.standard_normal(sizes[1]).astype(np.float32),
    }
    folder.mkdir()
    save_file(weights, folder / "model.safetensors")
    usual = {"in_features": sizes[0], "out_features": sizes[1], "bias": True}
    activation = {"activation_function": "torch.nn.modules.activation.Tanh"}
    (folder / "config.json").write_text(json.dumps(usual | activation | config))
    return weights


def framework(folder: Path, *, trust: Trust | None = None, **recipe: Any) -> TextFramework:
    filled = TextEmbeddingRecipe.model_validate({"kind": "text-embedding", **recipe})
    return TextFramework(source=FetchedSource(folder, "", ""), recipe=filled, trust=trust or Trust())


def pooled(states: np.ndarray, count: int, mode: str) -> np.ndarray:
    """Return one text's pooling, computed over its own tokens only."""
    tokens = states[:count].astype(np.float64)
    weights = np.arange(1, count + 1)[:, None]
    return {
        "cls": tokens[0],
        "max": tokens.max(axis=0),
        "mean": tokens.mean(axis=0),
        "mean_sqrt_len_tokens": tokens.sum(axis=0) / np.sqrt(count),
        "weightedmean": (tokens * weights).sum(axis=0) / weights.sum(),
        "lasttoken": tokens[-1],
    }[mode]


def expected(loaded: TextFramework, modes: Sequence[str]) -> np.ndarray:
    """Return the pooled vectors, from the encoder's own answers."""
    tokens = loaded.tokenize(TEXTS)
    with torch.no_grad():
        answer: Any = loaded.head.encoder(
            **{name: torch.from_numpy(array) for name, array in tokens.items() if name in loaded.inputs}
        )
    counts = tokens["attention_mask"].sum(axis=1)
    assert len(set(counts)) > 1, "padding has to matter"
    rows = zip(answer.last_hidden_state.numpy(), counts, strict=True)
    return np.stack(
        [np.concatenate([pooled(states, count, mode) for mode in modes]) for states, count in rows]
    )


@pytest.mark.parametrize("form", [old, new])
@pytest.mark.parametrize("modes", [*((mode,) for mode in MODES), ("cls", "mean"), ("mean", "lasttoken")])
def test_pooling_is_read_from_the_source(tiny_folder, tmp_path, modes, form):
    loaded = framework(sentence_model(tiny_folder, tmp_path / "m", **{"1_Pooling__config": form(*modes)}))
    answer = loaded.answer(loaded.tokenize(TEXTS))["embedding"]
    np.testing.assert_allclose(answer, expected(loaded, modes), atol=1e-5)


@pytest.mark.soak  # exports a model
@pytest.mark.parametrize("format_name", ["onnx", "torchscript"])
def test_dense_layers_and_all_poolings_are_exported(tiny_folder, tmp_path, format_name):
    kinds = ("Transformer", "Pooling", "Dense", "Normalize", "Dense", "Dropout", "Normalize")
    config = {"1_Pooling__config": new(*MODES)}
    folder = sentence_model(tiny_folder, tmp_path / "m", kinds, **config)
    first = add_dense(folder / "2_Dense", (HIDDEN * 6, 24))
    identity = "torch.nn.modules.linear.Identity"
    second = add_dense(folder / "4_Dense", (24, 24), seed=2, activation_function=identity, use_residual=True)
    loaded = framework(folder)
    vectors = expected(loaded, MODES)
    vectors = np.tanh(vectors @ first["linear.weight"].T + first["linear.bias"])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors + vectors @ second["linear.weight"].T + second["linear.bias"]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    tokens = loaded.tokenize(TEXTS)
    np.testing.assert_allclose(loaded.answer(tokens)["embedding"], vectors, atol=1e-5)
    document = write(tmp_path, f"kind: text-embedding, format: {format_name}, input: tokens", folder)
    repository = write_repository(document, tmp_path / "work")
    assert repository.outputs[0].shape == (24,)
    if format_name == "onnx":
        served = GraphSession(repository.folder / "tiny/1/model.onnx").answer(tokens)
        np.testing.assert_allclose(served["embedding"], vectors, atol=1e-4)


def write(folder: Path, recipe: str, source: Path) -> Any:
    place = f"file://{source.relative_to(folder)}"
    return load_document(write_model_file(folder, recipe=recipe, source=place), ModelSpec)


@pytest.mark.parametrize(("modules", "normalized"), [(("Normalize",), True), ((), False)])
def test_normalization_is_read_from_the_source(tiny_folder, tmp_path, modules, normalized):
    loaded = framework(sentence_model(tiny_folder, tmp_path / "m", ("Transformer", "Pooling", *modules)))
    lengths = np.linalg.norm(loaded.answer(loaded.tokenize(TEXTS))["embedding"], axis=1)
    assert np.allclose(lengths, 1.0, atol=1e-5) == normalized


def test_a_plain_transformers_source_has_the_documented_defaults(tiny_folder):
    loaded = framework(tiny_folder, max_length=24)
    answer = loaded.answer(loaded.tokenize(TEXTS))["embedding"]
    mean = expected(loaded, ("mean",))
    np.testing.assert_allclose(answer, mean / np.linalg.norm(mean, axis=1, keepdims=True), atol=1e-5)
    assert TextEmbeddingRecipe(kind="text-embedding").usual_length == 256


LENGTHS: dict[str, tuple[dict[str, Any], int]] = {
    "old": ({"sentence_bert_config": {"max_seq_length": 16, "do_lower_case": False}}, 16),
    "of another architecture": ({"sentence_xlm-roberta_config": {"max_seq_length": 12}}, 12),
    "new, in the tokenizer": (
        {"sentence_bert_config": {"transformer_task": "feature-extraction"}, "tokenizer_config": 20},
        20,
    ),
    "not set: the tokenizer's": ({"tokenizer_config": 18}, 18),
    "not set: the positions": ({"tokenizer_config": int(1e30)}, 40),
}


@pytest.mark.parametrize(("files", "length"), LENGTHS.values(), ids=LENGTHS)
def test_the_maximum_length_is_read_from_the_source(tiny_folder, tmp_path, files, length):
    folder = sentence_model(tiny_folder, tmp_path / "m")
    for name, content in files.items():
        file = folder / f"{name}.json"
        there = json.loads(file.read_text()) | {"model_max_length": content} if file.is_file() else content
        file.write_text(json.dumps(there))
    loaded = framework(folder)
    assert loaded.max_length == length
    assert loaded.tokenize(["a " * 100])["input_ids"].shape == (1, length)


def test_texts_are_lowercased_if_the_source_is_configured_so(tiny_folder, tmp_path):
    files = {"sentence_bert_config": {"max_seq_length": 16, "do_lower_case": True}}
    folder = sentence_model(tiny_folder, tmp_path / "m", **files)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "NFC"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    loaded = framework(folder)
    upper, lower = loaded.tokenize([TEXTS[0].upper(), TEXTS[0].lower()])["input_ids"]
    np.testing.assert_array_equal(upper, lower)
    assert "Lowercase" in loaded.served_tokenizer()


def test_the_old_layout_has_the_transformer_in_a_folder(tiny_folder, tmp_path):
    kinds = ("Transformer", "Pooling", "Dense")
    folder = sentence_model(tiny_folder, tmp_path / "m", kinds, transformer="0_BERT")
    add_dense(folder / "2_Dense", (HIDDEN, 8))
    (folder / "onnx").mkdir()
    shutil.copy(folder / "0_BERT/model.safetensors", folder / "onnx/model.safetensors")
    document = write(tmp_path, "kind: text-embedding", folder)
    selection = file_selection(document.record)
    assert [file.relative_to(folder).as_posix() for file in selection.weights_among(folder)] == [
        "0_BERT/model.safetensors",
        "2_Dense/model.safetensors",
    ]
    source = fetch_source("file://m", model_folder=tmp_path, cache_dir=tmp_path, selection=selection)
    loaded = framework(source.folder)
    assert loaded.answer(loaded.tokenize(TEXTS))["embedding"].shape == (4, 8)


@pytest.mark.parametrize(
    ("field", "value", "file", "own"),
    [
        ("pooling", "mean", "1_Pooling/config.json", "cls and max"),
        ("normalize", False, "modules.json", "true"),
        ("max_length", 20, "sentence_bert_config.json", "16"),
    ],
)
def test_a_recipe_that_contradicts_the_source_needs_a_reason(tiny_folder, tmp_path, field, value, file, own):
    folder = sentence_model(
        tiny_folder,
        tmp_path / "m",
        ("Transformer", "Pooling", "Normalize"),
        **{"1_Pooling__config": old("cls", "max"), "sentence_bert_config": {"max_seq_length": 16}},
    )
    document = write(tmp_path, f"kind: text-embedding, {field}: {json.dumps(value)}", folder)
    with pytest.raises(InvalidFilesError) as caught:
        write_repository(document, tmp_path / "work")
    (violation,) = caught.value.violations
    assert (violation.line, violation.field) == (4, f"recipe.{field}")
    assert f"{file} in" in violation.message
    assert violation.message.endswith(f" {own}")
    allowed = framework(folder, **{field: value}, overrides={field: REASON}).head.recipe.model_dump()[field]
    assert allowed == (("mean",) if field == "pooling" else value)


@pytest.mark.parametrize(
    ("modules", "recipe"),
    [((), {}), (("Normalize",), {}), ((), {"normalize": True, "overrides": {"normalize": REASON}})],
)
def test_vectors_are_cut_where_sentence_transformers_cuts_them(tiny_folder, tmp_path, modules, recipe):
    config = {"truncate_dim": 5}
    folder = sentence_model(
        tiny_folder,
        tmp_path / "m",
        ("Transformer", "Pooling", *modules),
        config_sentence_transformers=config,
        **{"2_Normalize__config": {}},
    )
    loaded = framework(folder, **recipe)
    vectors = expected(loaded, ["mean"])
    if modules:  # the module comes first; encode(normalize_embeddings=True) is applied after the cut
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors[:, :5]
    if recipe:
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(loaded.answer(loaded.tokenize(TEXTS))["embedding"], vectors, atol=1e-5)
    whole = framework(folder, overrides={"truncate_dim": REASON, **recipe.get("overrides", {})})
    assert whole.answer(whole.tokenize(TEXTS))["embedding"].shape == (len(TEXTS), HIDDEN)


@pytest.mark.parametrize("wrong", [0, -1, True, "16", 1.5])
def test_an_invalid_dimension_is_rejected(tiny_folder, tmp_path, wrong):
    folder = sentence_model(tiny_folder, tmp_path / "m", config_sentence_transformers={"truncate_dim": wrong})
    with pytest.raises(ExportError, match="truncate_dim"):
        framework(folder)


def test_a_prompt_of_the_source_is_not_dropped_silently(tiny_folder, tmp_path):
    config = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
    folder = sentence_model(tiny_folder, tmp_path / "m", config_sentence_transformers=config)
    with pytest.raises(ExportError, match=r"'query: '"):
        framework(folder)
    assert framework(folder, overrides={"prompt": "callers send it"}).max_length
    assert framework(
        sentence_model(tiny_folder, tmp_path / "n", config_sentence_transformers={"prompts": {}})
    )


POOLING, BERT = "1_Pooling__config", "sentence_bert_config"
FLAG, MEAN = "pooling_mode_cls_token", "pooling_mode_mean_tokens"
REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "another module": ({"modules": ("Transformer", "Pooling", "LayerNorm")}, "module LayerNorm"),
    "no pooling": ({"modules": ("Transformer", "Normalize")}, "Transformer, Normalize"),
    "code of its own": ({"package": "custom_st"}, "custom_st.Transformer"),
    "an unknown pooling": ({POOLING: {"pooling_mode": "median"}}, "1_Pooling/config.json: unknown"),
    "an unknown flag": ({POOLING: {"pooling_mode_attention": True, MEAN: True}}, "attention is True"),
    "a number for a flag": ({POOLING: {FLAG: 1, MEAN: False}}, "pooling_mode_cls_token is 1"),
    "no flag": ({POOLING: {FLAG: False, MEAN: False}}, "no pooling mode"),
    "a length in quotes": ({BERT: {"max_seq_length": "16"}}, "max_seq_length is '16'"),
    "another task": ({BERT: {"transformer_task": "fill-mask"}}, "transformer_task is 'fill-mask'"),
    "another output of the model": (
        {BERT: {"modality_config": {"text": {"method_output_name": "pooler_output"}}}},
        "'pooler_output'",
    ),
    "a list for a mapping": ({POOLING: []}, "got a list"),
    "a folder elsewhere": ({"transformer_path": "../x"}, "'../x'"),
    "no transformer": ({"transformer_path": "0_BERT"}, "0_BERT/config.json"),
}


@pytest.mark.parametrize(("changes", "value"), REJECTED.values(), ids=REJECTED)
def test_settings_that_cannot_be_applied_are_rejected(tiny_folder, tmp_path, changes, value):
    facts = dict(changes)
    modules = facts.pop("modules", ("Transformer", "Pooling"))
    path = facts.pop("transformer_path", None)
    folder = sentence_model(tiny_folder, tmp_path / "m", modules, **facts)
    if path:
        text = (folder / "modules.json").read_text()
        (folder / "modules.json").write_text(text.replace('"path": ""', f'"path": "{path}"'))
    with pytest.raises(ExportError) as caught:
        framework(folder)
    assert value in str(caught.value)


DENSE: dict[str, tuple[dict[str, Any], str]] = {
    "another size": ({"sizes": (16, 8)}, "in_features is 16"),
    "an unknown activation": ({"activation_function": "os.system"}, "'os.system'"),
    "an activation with another name": ({"activation_function": "torch.nn.Bilinear"}, "'torch.nn.Bilinear'"),
    "on tokens": ({"module_input_name": "token_embeddings"}, "'token_embeddings'"),
    "weights of another size": ({"out_features": 9}, "weights in 2_Dense"),
    "no size": ({"in_features": None}, "in_features"),
}


@pytest.mark.parametrize(("changes", "value"), DENSE.values(), ids=DENSE)
def test_dense_layers_that_cannot_be_applied_are_rejected(tiny_folder, tmp_path, changes, value):
    facts = dict(changes)
    folder = sentence_model(tiny_folder, tmp_path / "m", ("Transformer", "Pooling", "Dense"))
    add_dense(folder / "2_Dense", facts.pop("sizes", (HIDDEN, 8)), **facts)
    with pytest.raises(ExportError) as caught:
        framework(folder)
    assert value in str(caught.value)


def test_pickled_weights_of_a_dense_layer_are_read_if_trusted(tiny_folder, tmp_path):
    folder = sentence_model(tiny_folder, tmp_path / "m", ("Transformer", "Pooling", "Dense"))
    weights = add_dense(folder / "2_Dense", (HIDDEN, 8))
    (folder / "2_Dense/model.safetensors").unlink()
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    torch.save(tensors, folder / "2_Dense/pytorch_model.bin")
    with pytest.raises(ExportError, match=r"2_Dense has no"):
        framework(folder)
    loaded = framework(folder, trust=Trust(pickle="made by this very test"))
    assert loaded.answer(loaded.tokenize(TEXTS))["embedding"].shape == (4, 8)


@pytest.mark.parametrize("pooling", ["median", "[cls, median]", "[]"])
def test_an_unknown_pooling_in_a_recipe(tmp_path, pooling):
    with pytest.raises(InvalidFilesError, match=r"model.yaml:4: recipe"):
        recipe_for(write(tmp_path, f"kind: text-embedding, pooling: {pooling}", tmp_path))
