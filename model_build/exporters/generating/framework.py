"""A model that writes texts: transformers' own completions, and what the served loop needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import onnxruntime
import torch
import transformers
from tokenizers import Tokenizer

from model_build.checking.generate_check import COMPARED_TOKENS
from model_build.data import ExportedGraph, FrameworkFiles
from model_build.errors import ExportError, UnsupportedModelError
from model_build.exporters.framework import not_exported
from model_build.exporters.heads import Head
from model_build.exporters.loading import load_model, load_tokenizer, quiet
from model_build.served.generation import Generator, Options
from tritonstack.base.error_kinds import ModelMismatchError
from tritonstack.files.model.recipes import GenerationRecipe

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


REMEDY = "serve it with the recipe vllm, or with one of kind python"


class GenerationFramework(ABC):
    """The model and its tokenizer."""

    head: ClassVar[type[Head]]

    def __init__(self, files: FrameworkFiles) -> None:
        recipe: GenerationRecipe = files.recipe
        with quiet():
            loaded = load_model(files, self.head)
            self._tokenizer = load_tokenizer(files.folder, trust=files.trust, pads=False)
        self.unused_weights = loaded.unused
        self._model = loaded.model
        self._check_architecture()
        self._model.set_attn_implementation("eager")  # it exports best
        require_plain_settings(self._model.generation_config, recipe.overrides)
        self.options = self._options(recipe)
        self._check_vocabulary()

    @property
    @abstractmethod
    def description(self) -> str:
        """One-line description of the model."""

    @abstractmethod
    def room_for(self, prompt: Sequence[int]) -> int:
        """Return the most tokens of a prompt's completion; raise if there are none."""

    @abstractmethod
    def _check_architecture(self) -> None:
        """Raise ExportError if the model's state is not what the served loop keeps."""

    @abstractmethod
    def _options(self, recipe: GenerationRecipe) -> Options:
        """Return the options of the served loop."""

    @abstractmethod
    def _export(self, folder: Path) -> ExportedGraph:
        """Write the graphs; return the one of a step."""

    def served_tokenizer(self) -> str:
        """Return tokenizer.json, without truncation and padding."""
        backend = self._tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        return str(backend.to_str())

    def prompt(self, text: str) -> list[int]:
        """Return the tokens of a prompt."""
        ids: list[int] = self._tokenizer(text)["input_ids"]
        return ids or [token for token in (self.options.begin_token,) if token is not None]

    def generator(self, file: Path) -> Generator:
        """Return the served loop with an exported graph."""
        tokenizer = Tokenizer.from_str(self.served_tokenizer())
        return Generator.load(file.parent, tokenizer, self.options, onnxruntime.SessionOptions())

    def complete(self, prompt: Sequence[int], max_tokens: int) -> list[int]:
        """Return transformers' own greedy completion."""
        ids = torch.tensor([list(prompt)])
        with quiet(), torch.inference_mode():
            output = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                # What it omits comes from the model's generation_config.json.
                generation_config=transformers.GenerationConfig(  # type: ignore[no-untyped-call]
                    do_sample=False,
                    num_beams=1,
                    max_new_tokens=max_tokens,
                    eos_token_id=list(self.options.end_tokens) or None,
                    pad_token_id=self._tokenizer.pad_token_id or 0,
                    repetition_penalty=self.options.repetition_penalty,
                ),
            )
        completion: list[int] = output[0, len(self.options.before(prompt)) :].tolist()
        return completion

    def text_of(self, prompt: Sequence[int], completion: Sequence[int]) -> str:
        """Return the text that a completion adds to its prompt."""
        tokens, begin = list(completion), list(self.options.before(prompt))
        if tokens and tokens[-1] in self.options.end_tokens:
            tokens.pop()
        before, whole = (self._decoded(ids) for ids in (begin, [*begin, *tokens]))
        return whole[len(before) :]

    def export(self, folder: Path) -> ExportedGraph:
        """Write the graphs; return the one of a step."""
        with quiet():
            try:
                return self._export(folder)
            except ExportError:
                raise
            except Exception as error:
                raise not_exported(error, REMEDY) from error

    def _served_options(
        self,
        *,
        max_length: int,
        max_tokens: int,
        begin_token: int | None = None,
        start_token: int | None = None,
    ) -> Options:
        """Return these options, and those of generation_config.json."""
        config, settings = self._model.config, self._model.generation_config
        ends = settings.eos_token_id if settings.eos_token_id is not None else config.eos_token_id
        ends = _tokens(self._tokenizer.eos_token_id if ends is None else ends)
        return Options(
            max_length=max_length,
            max_tokens=max_tokens,
            end_tokens=ends,
            begin_token=begin_token,
            repetition_penalty=float(getattr(settings, "repetition_penalty", None) or 1.0),
            start_token=start_token,
            first_tokens=_tokens(getattr(settings, "forced_bos_token_id", None)),
            last_tokens=_tokens(getattr(settings, "forced_eos_token_id", None)),
            banned_tokens=banned_tokens(settings, ends),
            unrepeated=getattr(settings, "no_repeat_ngram_size", None) or 0,
            min_length=getattr(settings, "min_length", None) or 0,
        )

    def _check_vocabulary(self) -> None:
        rows = int(self._model.get_input_embeddings().weight.shape[0])
        largest = max(self._tokenizer.get_vocab().values())
        if largest >= rows:
            raise ExportError(
                f"the tokenizer has the token {largest}, but the model embeds only {rows}",
                remedy="use the tokenizer that belongs to the weights",
            )

    def _decoded(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def keys_and_values(cache: Any) -> list[torch.Tensor]:
    """Return the keys and values of each layer of a cache."""
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def layer_names(count: int) -> list[str]:
    """Return the names of the keys and values of layers; `count` is the number of tensors."""
    return [f"{layer}.{kind}" for layer in range(count // 2) for kind in ("key", "value")]


def causal_mask(*, earlier: int, new: int) -> torch.Tensor:
    """Return a whole mask, because transformers' own depends on sizes in ways that cannot be exported."""
    positions = torch.arange(new) + earlier
    is_visible = torch.arange(earlier + new)[None, :] <= positions[:, None]
    return torch.where(is_visible, 0.0, torch.finfo(torch.float32).min)[None, None]


def _tokens(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list | tuple) else () if value is None else (value,)
