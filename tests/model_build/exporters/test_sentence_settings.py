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
from model_build.graphs.running import GraphSession
from model_build.sources import fetch_source, file_selection
from tests.model_build.frameworks import TRUSTED, change_json, framework_of
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny import TEXTS
from tests.model_build.written_repositories import violation_of, write_repository
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import TextEmbeddingRecipe

KIND = "text-embedding"
FLAGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
MODES = tuple(FLAGS)
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


def vectors_of(framework: Any) -> np.ndarray:
    vectors: np.ndarray = framework.answer(framework.tokenize(TEXTS))["embedding"]
    return vectors


def scaled(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


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


def expected(loaded: Any, modes: Sequence[str]) -> np.ndarray:
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


# The old form can hold what the new one can, so that each mode is read in one form, and lists in both.
POOLINGS = [
    *((new, (mode,)) for mode in MODES),
    (old, ("cls",)),
    (old, ("lasttoken",)),
    (old, ("cls", "mean")),
]


@pytest.mark.parametrize(("form", "modes"), POOLINGS)
def test_pooling_is_read_from_the_source(tiny_folder, tmp_path, form, modes):
    folder = sentence_model(tiny_folder, tmp_path / "m", **{"1_Pooling__config": form(*modes)})
    loaded = framework_of(folder, KIND)
    np.testing.assert_allclose(vectors_of(loaded), expected(loaded, modes), atol=1e-5)


def write(folder: Path, source: Path, **recipe: Any) -> Document[ModelSpec]:
    place = f"file://{source.relative_to(folder)}"
    return write_supplied(folder, {"kind": KIND, **recipe}, source=place, test_inputs=TEXTS)


@pytest.mark.soak  # exports a model
@pytest.mark.parametrize("format_name", ["onnx", "torchscript"])
def test_dense_layers_and_all_poolings_are_exported(tiny_folder, tmp_path, format_name):
    kinds = ("Transformer", "Pooling", "Dense", "Normalize", "Dense", "Dropout", "Normalize")
    folder = sentence_model(tiny_folder, tmp_path / "m", kinds, **{"1_Pooling__config": new(*MODES)})
    first = add_dense(folder / "2_Dense", (HIDDEN * 6, 24))
    identity = "torch.nn.modules.linear.Identity"
    second = add_dense(folder / "4_Dense", (24, 24), seed=2, activation_function=identity, use_residual=True)
    loaded = framework_of(folder, KIND)
    vectors = expected(loaded, MODES) @ first["linear.weight"].T + first["linear.bias"]
    vectors = scaled(np.tanh(vectors))
    vectors = scaled(vectors + vectors @ second["linear.weight"].T + second["linear.bias"])
    np.testing.assert_allclose(vectors_of(loaded), vectors, atol=1e-5)
    document = write(tmp_path, folder, format=format_name, input="tokens")
    repository = write_repository(document, tmp_path / "work")
    assert repository.outputs[0].shape == (24,)
    if format_name == "onnx":
        served = GraphSession(repository.folder / "tiny/1/model.onnx").answer(loaded.tokenize(TEXTS))
        np.testing.assert_allclose(served["embedding"], vectors, atol=1e-4)


def test_a_plain_transformers_source_has_the_documented_defaults(tiny_folder):
    loaded = framework_of(tiny_folder, KIND, max_length=24)
    np.testing.assert_allclose(vectors_of(loaded), scaled(expected(loaded, ("mean",))), atol=1e-5)
    assert TextEmbeddingRecipe(kind="text-embedding").usual_length == 256


BERT, TOKENIZER = "sentence_bert_config.json", "tokenizer_config.json"
LENGTHS: dict[str, tuple[dict[str, dict[str, Any]], int]] = {
    "old": ({BERT: {"max_seq_length": 16, "do_lower_case": False}}, 16),
    "of another architecture": ({"sentence_xlm-roberta_config.json": {"max_seq_length": 12}}, 12),
    "new": ({BERT: {"transformer_task": "feature-extraction"}, TOKENIZER: {"model_max_length": 20}}, 20),
    "the tokenizer's": ({TOKENIZER: {"model_max_length": 18}}, 18),
    "the positions'": ({TOKENIZER: {"model_max_length": int(1e30)}}, 40),
}


@pytest.mark.parametrize(("files", "length"), LENGTHS.values(), ids=LENGTHS)
def test_the_maximum_length_is_read_from_the_source(tiny_folder, tmp_path, files, length):
    folder = sentence_model(tiny_folder, tmp_path / "m")
    for name, changes in files.items():
        change_json(folder / name, **changes)
    loaded = framework_of(folder, KIND)
    assert loaded.max_length == length
    assert loaded.tokenize(["a " * 100])["input_ids"].shape == (1, length)


def test_texts_are_lowercased_if_the_source_is_configured_so(tiny_folder, tmp_path):
    files = {"sentence_bert_config": {"max_seq_length": 16, "do_lower_case": True}}
    folder = sentence_model(tiny_folder, tmp_path / "m", **files)
    change_json(folder / "tokenizer.json", normalizer={"type": "NFC"})
    loaded = framework_of(folder, KIND)
    upper, lower = loaded.tokenize([TEXTS[0].upper(), TEXTS[0].lower()])["input_ids"]
    np.testing.assert_array_equal(upper, lower)
    assert "Lowercase" in loaded.served_tokenizer()


def test_the_old_layout_has_the_transformer_in_a_folder(tiny_folder, tmp_path):
    kinds = ("Transformer", "Pooling", "Dense")
    folder = sentence_model(tiny_folder, tmp_path / "m", kinds, transformer="0_BERT")
    add_dense(folder / "2_Dense", (HIDDEN, 8))
    (folder / "onnx").mkdir()
    shutil.copy(folder / "0_BERT/model.safetensors", folder / "onnx/model.safetensors")
    selection = file_selection(write(tmp_path, folder).record)
    assert [file.relative_to(folder).as_posix() for file in selection.weights_among(folder)] == [
        "0_BERT/model.safetensors",
        "2_Dense/model.safetensors",
    ]
    source = fetch_source("file://m", model_folder=tmp_path, cache_dir=tmp_path, selection=selection)
    assert vectors_of(framework_of(source.folder, KIND)).shape == (4, 8)


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
    violation = violation_of(write(tmp_path, folder, **{field: value}), tmp_path)
    assert (violation.line, violation.field) == (4, f"recipe.{field}")
    assert f"{file} in" in violation.message
    assert violation.message.endswith(f" {own}")
    allowed = framework_of(folder, KIND, **{field: value}, overrides={field: REASON}).head.recipe
    assert getattr(allowed, field) == (("mean",) if field == "pooling" else value)


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
    loaded = framework_of(folder, KIND, **recipe)
    vectors = expected(loaded, ["mean"])
    if modules:  # the module comes first; encode(normalize_embeddings=True) is applied after the cut
        vectors = scaled(vectors)
    vectors = scaled(vectors[:, :5]) if recipe else vectors[:, :5]
    np.testing.assert_allclose(vectors_of(loaded), vectors, atol=1e-5)
    whole = framework_of(folder, KIND, overrides={"truncate_dim": REASON, **recipe.get("overrides", {})})
    assert vectors_of(whole).shape == (len(TEXTS), HIDDEN)


def test_a_prompt_of_the_source_is_not_dropped_silently(tiny_folder, tmp_path):
    config = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
    folder = sentence_model(tiny_folder, tmp_path / "m", config_sentence_transformers=config)
    with pytest.raises(ExportError, match=r"'query: '"):
        framework_of(folder, KIND)
    assert framework_of(folder, KIND, overrides={"prompt": "callers send it"}).max_length


POOLING, SIZES, NEWEST = "1_Pooling__config", "sentence_bert_config", "config_sentence_transformers"
FLAG, MEAN = "pooling_mode_cls_token", "pooling_mode_mean_tokens"
ANOTHER_OUTPUT = {"modality_config": {"text": {"method_output_name": "pooler_output"}}}
REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "another module": ({"modules": ("Transformer", "Pooling", "LayerNorm")}, "module LayerNorm"),
    "no pooling": ({"modules": ("Transformer", "Normalize")}, "Transformer, Normalize"),
    "code of its own": ({"package": "custom_st"}, "custom_st.Transformer"),
    "an unknown pooling": ({POOLING: {"pooling_mode": "median"}}, "1_Pooling/config.json: unknown"),
    "an unknown flag": ({POOLING: {"pooling_mode_attention": True, MEAN: True}}, "attention is True"),
    "a number for a flag": ({POOLING: {FLAG: 1, MEAN: False}}, "pooling_mode_cls_token is 1"),
    "no flag": ({POOLING: {FLAG: False, MEAN: False}}, "no pooling mode"),
    "a length in quotes": ({SIZES: {"max_seq_length": "16"}}, "max_seq_length is '16'"),
    "another task": ({SIZES: {"transformer_task": "fill-mask"}}, "transformer_task is 'fill-mask'"),
    "another output of the model": ({SIZES: ANOTHER_OUTPUT}, "'pooler_output'"),
    "a list for a mapping": ({POOLING: []}, "got a list"),
    "a folder elsewhere": ({"path": "../x"}, "'../x'"),
    "no transformer": ({"path": "0_BERT"}, "0_BERT/config.json"),
    "a dimension of true": ({NEWEST: {"truncate_dim": True}}, "truncate_dim"),
    "a dense layer of another size": ({"dense": {"sizes": (16, 8)}}, "in_features is 16"),
    "an unknown activation": ({"dense": {"activation_function": "os.system"}}, "'os.system'"),
    "a dense layer on tokens": ({"dense": {"module_input_name": "token_embeddings"}}, "'token_embeddings'"),
    "weights of another size": ({"dense": {"out_features": 9}}, "weights in 2_Dense"),
    "a dense layer without a size": ({"dense": {"in_features": None}}, "in_features"),
}


@pytest.mark.parametrize(("changes", "value"), REJECTED.values(), ids=REJECTED)
def test_settings_that_cannot_be_applied_are_rejected(tiny_folder, tmp_path, changes, value):
    files = dict(changes)
    modules = files.pop("modules", ("Transformer", "Pooling", *(["Dense"] if "dense" in files else [])))
    path, dense = files.pop("path", ""), files.pop("dense", None)
    folder = sentence_model(tiny_folder, tmp_path / "m", modules, **files)
    if dense:
        add_dense(folder / "2_Dense", **{"sizes": (HIDDEN, 8), **dense})
    text = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(text.replace('"path": ""', f'"path": "{path}"'))
    with pytest.raises(ExportError) as caught:
        framework_of(folder, KIND)
    assert value in str(caught.value)


def test_pickled_weights_of_a_dense_layer_are_read_if_trusted(tiny_folder, tmp_path):
    folder = sentence_model(tiny_folder, tmp_path / "m", ("Transformer", "Pooling", "Dense"))
    weights = add_dense(folder / "2_Dense", (HIDDEN, 8))
    (folder / "2_Dense/model.safetensors").unlink()
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    torch.save(tensors, folder / "2_Dense/pytorch_model.bin")
    with pytest.raises(ExportError, match=r"2_Dense has no"):
        framework_of(folder, KIND)
    assert vectors_of(framework_of(folder, KIND, trust=TRUSTED)).shape == (4, 8)
