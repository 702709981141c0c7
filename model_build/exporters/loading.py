"""Models and tokenizers as transformers loads them, with errors that say what is wrong with the files."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError

from model_build.errors import ExportError
from model_build.exporters.heads.base import Head

LOAD_ERRORS = (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError)
SHOWN = 400


def load_model(folder: Path, head: type[Head], *, trust_remote_code: bool) -> Any:
    """The model that `head` ends, ready to answer; its weights have to fill it."""
    choices = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    with _told_as("transformers cannot load the model", trust_remote_code=trust_remote_code):
        config = transformers.AutoConfig.from_pretrained(folder, **choices)
    auto_class = head.auto_class(config)
    _check_architecture(config, auto_class, head)
    with _told_as("transformers cannot load the model", trust_remote_code=trust_remote_code):
        model, report = auto_class.from_pretrained(
            folder,
            config=config,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
            **choices,
        )
    missing = sorted(key for key in report["missing_keys"] if not _is_unused(key, head))
    missing += sorted(str(key) for key in report["mismatched_keys"])
    if missing:
        raise ExportError(
            f"the weights do not fill the model; these are missing: {', '.join(missing[:5])}",
            remedy="check that config.json and the safetensors file belong together, and that the weights "
            f"were trained for {head.task}",
        )
    return model.eval()


def load_tokenizer(folder: Path, *, trust_remote_code: bool) -> Any:
    """The tokenizer in the form that runs without transformers; it fills up on the right."""
    with _told_as(
        "transformers cannot load the tokenizer",
        trust_remote_code=trust_remote_code,
        remedy="the source needs tokenizer.json and tokenizer_config.json",
    ):
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
    if not tokenizer.is_fast or tokenizer.pad_token_id is None:
        lack = "padding token" if tokenizer.is_fast else "form that the tokenizers library can run"
        raise ExportError(f"the tokenizer has no {lack}", remedy="save the model with one that has")
    tokenizer.padding_side = "right"
    return tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' bars, notes and warnings out of the progress that the user is shown."""
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


def brief(error: BaseException) -> str:
    """What a library says, without the pages that some of them add."""
    text = " ".join(str(error).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"


@contextmanager
def _told_as(what: str, *, trust_remote_code: bool, remedy: str | None = None) -> Iterator[None]:
    try:
        yield
    except LOAD_ERRORS as error:
        if "trust_remote_code" in str(error) and not trust_remote_code:
            raise ExportError(
                f"{what}: it brings Python of its own, which would run here",
                remedy="read that code; if it may run, write `trust: {remote_code: <why>}` in model.yaml",
            ) from error
        raise ExportError(f"{what}: {brief(error)}", remedy=remedy) from error


def _check_architecture(config: Any, auto_class: Any, head: type[Head]) -> None:
    brought = auto_class.__name__ in getattr(config, "auto_map", {})
    if type(config) not in auto_class._model_mapping and not brought:
        raise ExportError(
            f"transformers has no {config.model_type} model for {head.task}",
            remedy="choose a model of another architecture, or another recipe",
        )


def _is_unused(key: str, head: type[Head]) -> bool:
    """Weights that the head does not look at may be missing; others would be random numbers."""
    return any(part in key for part in head.unused_weights)
