"""Load models and tokenizers with transformers, with errors that name the faulty file."""

from __future__ import annotations

import fnmatch
import importlib
import logging
import pickle
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import normalizers

from model_build.data import FrameworkFiles
from model_build.errors import ExportError, FieldError
from model_build.exporters.heads.base import Head
from model_build.exporters.tokenizers import match_pieces
from model_build.library_errors import brief, known_help
from model_build.sources.base import read_settings_file
from tritonstack.base.files import parse_json
from tritonstack.files.model.fields import Trust
from tritonstack.files.sources.source_selection import SAFE_WEIGHTS

# Check the tensors of a source that a model does not use. Task heads and buffers are reported. Unused tensors
# of the model body are rejected.

HEADS = re.compile(
    r"cls|mlm|nsp|.*lm_head|.*mlm_head|.*_head|heads?|classifier|.*_classifier|score|qa_outputs|"
    r"(.*_)?predictions|vocab_(transform|layer_norm|projector)|pred_layer|lm_loss|logits_proj|logit_scale|"
    r"sequence_summary|proj_out|embed_out|fc_norm_head"
)
"""Module names of task heads, such as those of pretraining."""
DROPPED = re.compile(
    r"(.*\.)?(position_ids|token_type_ids|inv_freq|masked_bias|attn\.bias|num_batches_tracked|"
    r"relative_position_index|relative_coords_table|attn_mask)|(.*\.)?pooler\..*|"
    r"decoder\.(weight|bias)|final_logits_bias"
)
"""Buffers saved by older versions and computed by newer ones, poolers, and vocabulary projections."""
SHOWN = 5


def check_unused(model: Any, unexpected: Iterable[str], *, allowed: Mapping[str, str]) -> tuple[str, ...]:
    """Group the unused tensors; raise FieldError for parts of the model body.

    `allowed` maps name patterns to the reasons why the tensors may be unused.
    """
    unused = sorted(unexpected)
    stale = [pattern for pattern in allowed if not fnmatch.filter(unused, pattern)]
    if stale:
        raise FieldError(
            ("allow_unused_weights", stale[0]),
            f"{stale[0]!r} matches no unused tensor; unused: {shown(unused) or 'none'}",
            remedy="remove or correct it",
        )
    rejected = [
        name
        for name in unused
        if not _is_usually_dropped(name, model)
        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed)
    ]
    if rejected:
        pattern = next(iter(_groups(rejected)))
        raise FieldError(
            ("source",),
            "the model that config.json describes does not use these tensors of the source: "
            f"{shown(rejected)}",
            remedy="check that config.json and the weights match; to leave these unused, "
            f"set `allow_unused_weights: {{{pattern!r}: <reason>}}`",
        )
    return tuple(f"{group} ({count})" for group, count in _groups(unused).items())


def _is_usually_dropped(name: str, model: Any) -> bool:
    """Return whether a tensor belongs to a task head or a buffer, and not to the model body."""
    base = getattr(model, "base_model", model)
    inner = name.removeprefix(f"{getattr(model, 'base_model_prefix', '')}.")
    if DROPPED.fullmatch(inner):
        return True
    modules = {*_children(base), *(_children(model) if model is not base else ())}
    top = inner.partition(".")[0]
    return HEADS.fullmatch(top) is not None and top not in modules


def _children(module: Any) -> Collection[str]:
    return [name for name, _ in module.named_children()]


def _groups(names: Iterable[str]) -> dict[str, int]:
    """Count tensors per layer or module, by name pattern."""
    groups: dict[str, list[str]] = {}
    for name in names:
        layer = re.match(r".*?\.\d+(?=\.)", name)
        groups.setdefault(layer[0] if layer else name.rpartition(".")[0], []).append(name)
    return {
        f"{group}.*" if len(members) > 1 and group else members[0]: len(members)
        for group, members in groups.items()
    }


def shown(names: Iterable[str]) -> str:
    """Return the first groups of tensors with their counts, as text."""
    groups = [f"{group} ({count})" for group, count in _groups(names).items()]
    more = f" and {len(groups) - SHOWN} more" if len(groups) > SHOWN else ""
    return ", ".join(groups[:SHOWN]) + more


CONFIG = "config.json must describe a transformers model, with `model_type`"
BELONG = "check that config.json and the weights match"


@dataclass(frozen=True)
class LoadedModel:
    """A model, and the tensors of its source that it does not use."""

    model: Any
    unused: tuple[str, ...]


def load_model(files: FrameworkFiles, head: type[Head]) -> LoadedModel:
    """Load the model under `head`; require that its weights are complete and used.

    A pickle is read only if trusted and no safetensors exist, and only for tensors.
    """
    folder, trust = files.folder, files.trust
    choices = {"local_files_only": True, "trust_remote_code": trust.remote_code is not None}
    is_safe = trust.pickle is None or any(folder.glob(SAFE_WEIGHTS))
    with _as_export_error("transformers cannot load the model's config.json", trust=trust, remedy=CONFIG):
        config = transformers.AutoConfig.from_pretrained(folder, **choices)
    _import_losses()
    auto_class = head.auto_class(config)
    _check_architecture(config, auto_class, head)
    with _as_export_error("transformers cannot load the model", trust=trust, remedy=BELONG):
        model, report = auto_class.from_pretrained(
            folder,
            config=config,
            use_safetensors=is_safe,
            weights_only=True,
            dtype=torch.float32,
            output_loading_info=True,
            **choices,
        )
    missing = sorted(key for key in report["missing_keys"] if not _is_unused(key, head))
    missing += sorted(str(key) for key in report["mismatched_keys"])
    require_weights(missing, remedy=f"{BELONG}, and that the weights were trained for {head.task}")
    unused = check_unused(model, map(str, report["unexpected_keys"]), allowed=files.allow_unused)
    return LoadedModel(head.part_of(model).eval(), unused)


def require_weights(missing: Iterable[str], *, remedy: str) -> None:
    """Raise ExportError if a source lacks weights: a library would leave them random."""
    names = sorted(missing)
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise ExportError(f"weights missing for: {', '.join(names[:SHOWN])}{more}", remedy=remedy)


def _import_losses() -> None:
    """Import transformers' losses without SciPy, which takes 0.4 s of processor time.

    transformers imports every loss with any model. Those for detecting objects import SciPy if it is
    installed; only training calls them.
    """
    utils: Any = transformers.utils
    has_scipy = utils.is_scipy_available
    utils.is_scipy_available = lambda: False
    try:
        importlib.import_module("transformers.loss.loss_utils")
    finally:
        utils.is_scipy_available = has_scipy


def load_tokenizer(folder: Path, *, trust: Trust, pads: bool = True) -> Any:
    """Load the tokenizer as a fast tokenizer that pads on the right; `pads` requires a padding token."""
    _check_vocabulary_files(folder)
    with _as_export_error(
        "transformers cannot load the tokenizer",
        trust=trust,
        remedy=_tokenizer_help(folder),
    ):
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust.remote_code is not None
        )
    if not tokenizer.is_fast:
        raise ExportError(
            "the tokenizer has no fast (tokenizers) form", remedy="use a tokenizer that has one"
        )
    if pads and tokenizer.pad_token_id is None:
        tokenizer.pad_token = _padding_token(folder, tokenizer)
    if len(tokenizer.get_vocab()) <= len(tokenizer.all_special_tokens):
        # Some classes build a tokenizer of special tokens alone if the vocabulary files are missing.
        remedy = _tokenizer_help(folder)
        if (folder / "tokenizer.json").is_file():
            remedy += "; when you create a tokenizer, pass `vocab=`: transformers 5 ignores `vocab_file=`"
        raise ExportError("the tokenizer has no vocabulary, only special tokens", remedy=remedy)
    pieces = sorted(folder.glob("*.model"))
    if pieces and not (folder / "tokenizer.json").is_file():
        match_pieces(tokenizer, pieces[0])
    tokenizer.padding_side = "right"
    return tokenizer


def _padding_token(folder: Path, tokenizer: Any) -> str:
    """Return the padding token of a tokenizer that has none: the model's, else the end of a text.

    The mask hides padding; left-to-right classifiers find the last token by it, as transformers documents.
    """
    config = read_settings_file(folder, "config.json")
    stated = config.get("pad_token_id")
    is_token = isinstance(stated, int) and 0 <= stated < len(tokenizer)
    token = tokenizer.convert_ids_to_tokens(stated) if is_token else tokenizer.eos_token
    if token is None:
        raise ExportError(
            "the tokenizer has no padding token, and no token for the end of a text",
            remedy="set `pad_token` in tokenizer_config.json, or `pad_token_id` in config.json",
        )
    return str(token)


def _check_vocabulary_files(folder: Path) -> None:
    """Reject settings that open a path as a vocabulary, which may be outside the source."""
    name = "tokenizer_config.json"
    settings = read_settings_file(folder, name)
    for key in ("vocab", "merges"):
        if isinstance(settings.get(key), str):
            raise ExportError(
                f"{name}: {key} is {settings[key]!r}, a path to a vocabulary",
                remedy=f"remove `{key}`, or save the tokenizer again with save_pretrained(folder)",
            )


def put_into_lower_case(tokenizer: Any) -> None:
    """Make a tokenizer lowercase texts first, if none of its steps does."""
    backend = tokenizer.backend_tokenizer
    normalizer = parse_json(backend.to_str())["normalizer"]
    steps = (normalizer or {}).get("normalizers", [normalizer] if normalizer else [])
    if not any(step["type"] == "Lowercase" or step.get("lowercase") is True for step in steps):
        existing = [backend.normalizer] if backend.normalizer is not None else []
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *existing])


def _tokenizer_help(folder: Path) -> str:
    """Return what the source lacks, judging by its files."""
    if (folder / "tokenizer.json").is_file():
        return "save tokenizer.json and tokenizer_config.json again with save_pretrained(folder)"
    pieces = sorted(file.name for file in folder.glob("*.model"))
    if pieces:
        return (
            f"the source has only {', '.join(pieces)} (SentencePiece), which transformers did not convert: "
            "add the tokenizer.json of the model"
        )
    return "add tokenizer.json and tokenizer_config.json to the source"


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress progress bars and warnings of the libraries."""
    notes: Any = transformers.utils.logging
    notes.disable_progress_bar()
    notes.set_verbosity_error()
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _as_export_error(subject: str, *, trust: Trust, remedy: str | None = None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if "trust_remote_code" in str(error) and trust.remote_code is None:
            raise ExportError(
                f"{subject}: it contains Python code, which would run here",
                remedy="review that code; to allow it, set `trust: {remote_code: <reason>}` in model.yaml",
            ) from error
        if isinstance(error, pickle.UnpicklingError):
            # PyTorch's own message advises loading it anyway.
            raise ExportError(
                f"{subject}: its pickle holds more than tensors, which is rejected even if trusted",
                remedy="in a sandbox, load the model once and save it again with "
                "`save_pretrained(folder)`, which writes safetensors; then use file://",
            ) from error
        message = f"{type(error).__name__}: {brief(error)}"
        raise ExportError(f"{subject}: {message}", remedy=known_help(error) or remedy) from error


def _check_architecture(config: Any, auto_class: Any, head: type[Head]) -> None:
    brought = auto_class.__name__ in getattr(config, "auto_map", {})
    if (
        auto_class is transformers.AutoModel
        and hasattr(config, "text_config")
        and hasattr(config, "vision_config")
        and config.model_type not in head.two_towers
    ):
        raise ExportError(
            f"{config.model_type} is a text and image model; this recipe needs a text encoder",
            remedy="export its text model for the recipe onnx with `input: text`, or use one of kind python",
        )
    if type(config) not in auto_class._model_mapping and not brought:
        raise ExportError(
            f"transformers has no {config.model_type} model for {head.task}",
            remedy="choose a model of another architecture, or another recipe",
        )


def _is_unused(key: str, head: type[Head]) -> bool:
    """Weights that the head ignores may be missing; others would be random."""
    return not {*key.split(".")}.isdisjoint(head.unused_weights)
