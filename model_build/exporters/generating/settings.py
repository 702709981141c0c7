"""Settings of generation_config.json: those that are served, and those that are rejected."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from model_build.checking.generate_check import COMPARED_TOKENS
from model_build.errors import ExportError, UnsupportedModelError
from tritonstack.base.error_kinds import ModelMismatchError

USUAL_LENGTH = 2048
PLAIN: Mapping[str, Any] = MappingProxyType(
    {
        "num_beams": 1,
        "encoder_no_repeat_ngram_size": 0,
        "min_new_tokens": None,
        "force_words_ids": None,
        "begin_suppress_tokens": None,
        "sequence_bias": None,
        "guidance_scale": 1.0,
        "constraints": None,
        "dola_layers": None,
        "encoder_repetition_penalty": 1.0,
        "exponential_decay_length_penalty": None,
        "forced_decoder_ids": None,
        "max_time": None,
        "num_return_sequences": 1,
        "penalty_alpha": 0.0,
        "stop_strings": None,
        "token_healing": False,
        "watermarking_config": None,
    }
)
"""Settings that change greedy completions and are not served, and the values that do not."""


def require_plain_settings(settings: Any, overrides: Collection[str] = ()) -> None:
    """Reject settings of generation_config.json that change greedy completions and are not served.

    Those with a reason in `overrides` get their plain value: the reference leaves them out, too.
    """
    for name, plain in PLAIN.items():
        value = getattr(settings, name, plain)
        if value in (plain, None):
            continue
        if name in overrides:
            setattr(settings, name, plain)
            continue
        override = f"add `overrides: {{{name}: <reason>}}` to the recipe"
        remedy = (
            f"to choose the most likely token each time, {override}"
            if name == "num_beams"
            else f"serve the model with the recipe vllm; to leave it out, {override}"
        )
        raise UnsupportedModelError(
            f"generation_config.json: {name} is {value!r}, which is not supported",
            remedy=remedy,
        )


def banned_tokens(settings: Any, ends: Collection[int]) -> tuple[int, ...]:
    """Return the tokens that are never chosen; as in transformers, bad words do not include an end."""
    words: list[list[int]] = getattr(settings, "bad_words_ids", None) or []
    if long := [word for word in words if len(word) != 1]:
        raise UnsupportedModelError(
            f"generation_config.json: bad_words_ids has words of several tokens, such as {long[0]}, which is "
            "not supported",
            remedy="remove them from generation_config.json, or serve the model with the recipe vllm",
        )
    suppressed: list[int] = getattr(settings, "suppress_tokens", None) or []
    return tuple(sorted({word[0] for word in words if word[0] not in ends} | set(suppressed)))


def longest(requested: int | None, *, positions: int | None, usual: int = USUAL_LENGTH) -> int:
    """Return the most tokens of a text; `positions` are the model's, `usual` holds without `requested`."""
    if requested and positions and requested > positions:
        raise ExportError(
            f"max_length is {requested}, but the model has {positions} positions",
            remedy=f"write `max_length: {positions}` or less in the recipe",
            code=ModelMismatchError.code,
        )
    most = requested or usual
    length = min(most, positions or most)
    if length <= COMPARED_TOKENS:
        raise ExportError(
            f"the model has {length} positions; expected more than {COMPARED_TOKENS}, for a completion to "
            "compare",
            remedy="choose a model for longer texts",
            code=ModelMismatchError.code,
        )
    return length
