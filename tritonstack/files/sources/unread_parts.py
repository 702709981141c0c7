"""Find what a recipe does not read of its source: adapters, heads, other weights, and settings.

The library that wrote a folder may apply them, so its answers would differ from the artifact's. Duplicates of
the weights in other formats and files of the training are no such parts, nor is anything in inner folders,
which libraries read only if a settings file names them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from tritonstack.base.error_kinds import ModelMismatchError
from tritonstack.base.errors import FileViolation
from tritonstack.base.files import read_json
from tritonstack.base.yaml import Document, suggest
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import (
    SETTINGS,
    SourcedRecipe,
    TextEmbeddingRecipe,
    TextPairClassificationRecipe,
    VllmRecipe,
)
from tritonstack.files.sources.source_selection import PICKLES, SAFE_WEIGHTS

ADAPTER = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.*"
SETFIT = "config_setfit.json"
SETFIT_HEAD = "model_head.pkl"
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
READ_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors", "pytorch_model*.bin")
ORDINARY_FILES = (
    *READ_WEIGHTS,
    *("model.*", "pytorch_model*", "consolidated*", "open_clip_*", "openvino_*", "ggml-*", "*.ckpt"),
    *("training_args.*", "optimizer*", "scheduler*", "rng_state*", "random_states*", "scaler.pt"),
    *("*_states.pt", "*tokenizer*", "*vocab*"),
    # BGE-M3's heads for sparse and multi-vector retrieval do not change its dense vectors.
    *("colbert_linear.pt", "sparse_linear.pt"),
)
"""The weights, their duplicates, files of the training, and vocabularies."""
_LAYER = frozenset({"module_input_name", "module_output_name"})
READ_SETTINGS: Mapping[str, Collection[str]] = {
    "config_sentence_transformers.json": (
        *("__version__", "activation_fn", "default_prompt_name", "model_type", "prompts", "requirements"),
        *("similarity_fn_name", "truncate_dim"),
    ),
    "sentence_*_config.json": (
        *("do_lower_case", "document_length", "max_seq_length", "modality_config", "module_output_name"),
        *("processing_kwargs", "query_expansion", "query_length", "transformer_task", "unpad_inputs"),
    ),
    "*_Pooling/config.json": (
        *("embedding_dimension", "include_prompt", "pooling_mode", "pooling_mode_*"),
        "word_embedding_dimension",
    ),
    "*_Dense/config.json": (
        *("activation_function", "bias", "in_features", "out_features", "use_residual"),
        *_LAYER,
    ),
    "*_Normalize/config.json": _LAYER,
}
"""Settings of sentence-transformers that the exporters apply or reject: patterns of files and keys."""
_CLASSES = {
    "text-classification": "AutoModelForSequenceClassification",
    "text-pair-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "image-classification": "AutoModelForImageClassification",
    "text-generation": "AutoModelForCausalLM",
    "vllm": "AutoModelForCausalLM",
    "text-to-text": "AutoModelForSeq2SeqLM",
}


class UnreadPart(NamedTuple):
    """A file or a setting that a recipe does not read."""

    key: str
    """Its name in `overrides`."""
    message: str
    remedy: str


def unread_violations(
    document: Document[ModelSpec], names: Collection[str], folder: Path, *, complete: bool = True
) -> Iterator[FileViolation]:
    """Yield the unread parts without a reason in `overrides`, and overrides of parts that do not exist.

    `names` are the known files of the source (`complete`: all of them); `folder` has those
    that were fetched.
    """
    recipe = document.record.recipe
    if not isinstance(recipe, SourcedRecipe):
        return
    parts = [*_unread_files(recipe.kind, names, folder), *_unread_settings(document.record, names, folder)]
    for part in parts:
        if part.key not in recipe.overrides:
            yield document.violation(ModelMismatchError, ("source",), part.message, part.remedy)
    keys = {*SETTINGS, *(part.key for part in parts)}
    for key in recipe.overrides:
        if complete and key not in keys:
            yield document.violation(
                ModelMismatchError,
                ("recipe", "overrides", key),
                f"the source has no unread part {key!r}",
                suggest(key, keys, "remove it"),
            )


def _override(key: str) -> str:
    return f"`overrides: {{{key}: <reason>}}` in the recipe"


def _unread_files(kind: str, names: Collection[str], folder: Path) -> Iterator[UnreadPart]:
    own = sorted(name for name in names if "/" not in name)
    weights = {name for name in own if any(fnmatchcase(name, pattern) for pattern in READ_WEIGHTS)}
    for index in INDEXES:
        parts = _content(folder / index).get("weight_map")
        weights |= set(map(str, parts.values())) if isinstance(parts, dict) else set()
    if ADAPTER in own:
        yield _adapter(kind, folder, has_base=bool(weights))
    if SETFIT in own:
        yield UnreadPart(
            SETFIT_HEAD,
            f"the source is a SetFit model; the recipe {kind} does not read its classifier, {SETFIT_HEAD}",
            "build the classifier with the recipe scikit-learn, and both as an ensemble; then set "
            f"{_override(SETFIT_HEAD)}",
        )
    if not weights:
        return  # the loader reports it
    for name in own:
        is_part = any(fnmatchcase(name, pattern) for pattern in (SAFE_WEIGHTS, *PICKLES))
        is_adapter = ADAPTER in own and fnmatchcase(name, ADAPTER_WEIGHTS)
        is_head = SETFIT in own and name == SETFIT_HEAD
        if not is_part or name in weights or is_adapter or is_head:
            continue
        if not any(fnmatchcase(name, pattern) for pattern in ORDINARY_FILES):
            yield UnreadPart(
                name,
                f"the recipe {kind} does not read {name}; if its library applies that after the model, the "
                "answers differ",
                f"if they do not, set {_override(name)}; else export the whole model for the recipe onnx, or "
                "use one of kind python",
            )


def _adapter(kind: str, folder: Path, *, has_base: bool) -> UnreadPart:
    name = _content(folder / ADAPTER).get("base_model_name_or_path") or "another model"
    merge = (
        f"merge it where peft is installed, `PeftModel.from_pretrained({_CLASSES.get(kind, 'AutoModel')}"
        ".from_pretrained(BASE), ADAPTER).merge_and_unload().save_pretrained(NEW)`, copy the tokenizer to "
        "NEW, and use NEW"
    )
    if not has_base:
        return UnreadPart(ADAPTER, f"the source is an adapter of {name}, without that model's weights", merge)
    return UnreadPart(
        ADAPTER,
        f"the recipe {kind} does not apply the adapter beside the weights, {ADAPTER}",
        f"{merge}; BASE must be a copy without the files of the adapter. To serve the model without it, set "
        f"{_override(ADAPTER)}",
    )


def _unread_settings(spec: ModelSpec, names: Collection[str], folder: Path) -> Iterator[UnreadPart]:
    recipe = spec.recipe
    if not isinstance(recipe, VllmRecipe):
        yield from _quantization(recipe.kind, folder)
    if not isinstance(recipe, TextEmbeddingRecipe | TextPairClassificationRecipe):
        return
    for pattern, keys in READ_SETTINGS.items():
        for name in sorted(names):
            # `*` of a file's pattern may stand for folders, as in 0_Transformer/sentence_bert_config.json.
            if not fnmatchcase(name, pattern) and not fnmatchcase(name, f"*/{pattern}"):
                continue
            for key, value in _content(folder / name).items():
                if value and not any(fnmatchcase(key, known_key) for known_key in keys):
                    yield UnreadPart(
                        key,
                        f"{name}: {key} is {value!r}, which the recipe {recipe.kind} does not apply",
                        f"remove it there, or, if it does not change answers, set {_override(key)}",
                    )
    if _content(folder / SETFIT).get("normalize_embeddings") and not _normalizes(folder):
        yield UnreadPart(
            "normalize_embeddings",
            f"{SETFIT}: normalize_embeddings is true, which the recipe {recipe.kind} does not apply",
            f"set `normalize: true` and {_override('normalize_embeddings')}",
        )


def _quantization(kind: str, folder: Path) -> Iterator[UnreadPart]:
    settings = _content(folder / "config.json").get("quantization_config")
    if settings:
        method = settings.get("quant_method") if isinstance(settings, dict) else None
        yield UnreadPart(
            "quantization_config",
            f"config.json: the weights are quantized ({method or 'quantization_config'}); the recipe {kind} "
            "needs plain weights",
            "serve a language model with the recipe vllm on a GPU; for other models, use the weights from "
            "before the quantization. If transformers reads these without other packages, set "
            f"{_override('quantization_config')}",
        )


def _normalizes(folder: Path) -> bool:
    modules = _content(folder / "modules.json", list)
    return any(
        str(module.get("type")).endswith(".Normalize") for module in modules if isinstance(module, dict)
    )


def _content(file: Path, kind: type[Any] = dict) -> Any:
    """Return the content of a file; empty if it is missing or invalid, which the build reports."""
    try:
        content = read_json(file)
    except (OSError, ValueError):
        return kind()
    return content if isinstance(content, kind) else kind()
