"""An encoder-decoder model: one graph reads the input, another computes one step of the output.

The encoder's graph returns the keys and values of the input for each layer of the decoder (`cross.*`). The
decoder's graph takes these, new tokens, and the keys and values of earlier ones (`past.*`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import transformers
from transformers.cache_utils import DynamicLayer

from model_build.data import ExportedGraph
from model_build.errors import ExportError, UnsupportedModelError
from model_build.exporters.framework import to_onnx
from model_build.exporters.generating.framework import (
    REMEDY,
    USUAL_LENGTH,
    GenerationFramework,
    causal_mask,
    keys_and_values,
    layer_names,
    longest,
)
from model_build.exporters.heads import Head
from model_build.graphs.onnx_files import save_graph
from model_build.served.generation import CROSS, ENCODER, INPUT, LOGITS, PAST, PRESENT, Options
from tritonstack.base.error_kinds import ModelMismatchError
from tritonstack.files.model.recipes import GenerationRecipe

SUPPORTED = (
    "bart",
    "m2m_100",
    "marian",
    "mbart",
    "mt5",
    "pegasus",
    "plbart",
    "t5",
    "umt5",
)
"""Architectures whose decoders keep keys and values of all tokens, and nothing else."""


class EncoderDecoderModel(Head):
    """What is common to both graphs."""

    task: ClassVar[str] = "text to text"
    outputs: ClassVar[tuple[str, ...]] = (LOGITS,)

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """Return the class for encoder-decoder models."""
        if config.model_type not in SUPPORTED:
            is_causal = type(config) in transformers.AutoModelForCausalLM._model_mapping
            raise UnsupportedModelError(
                f"{config.model_type} is not supported; supported architectures: {', '.join(SUPPORTED)}",
                remedy="use the recipe text-generation or vllm" if is_causal else REMEDY,
            )
        return transformers.AutoModelForSeq2SeqLM


class InputReader(EncoderDecoderModel):
    """The encoder, and what the decoder's layers make of its answer."""

    def forward(self, input_ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the keys and values of the input."""
        cache = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
        start = torch.zeros_like(input_ids[:, :1])
        # self.encoder is the whole model, see Head. The exporter removes what only its scores need.
        self.encoder(
            input_ids=input_ids,
            decoder_input_ids=start,
            decoder_attention_mask=causal_mask(earlier=0, new=1).expand(input_ids.shape[0], -1, -1, -1),
            past_key_values=cache,
            use_cache=True,
        )
        return tuple(keys_and_values(cache.cross_attention_cache))


class OutputStep(EncoderDecoderModel):
    """One step of the decoder."""

    def forward(self, input_ids: torch.Tensor, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the scores after the last token, then the keys and values of the output.

        `tensors` are the keys and values of the input, then those of the output.
        """
        cross, past = tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :]
        cache = transformers.EncoderDecoderCache(_cache_of(past), transformers.DynamicCache())
        cache.cross_attention_cache = _cache_of(cross)
        cache.is_updated = dict.fromkeys(range(len(cross) // 2), True)
        mask = causal_mask(earlier=past[0].shape[2], new=input_ids.shape[1])
        answer = self.encoder(  # the decoder alone: the encoder's answer is given
            encoder_outputs=(cross[0][:, 0],),  # only its length is used
            decoder_input_ids=input_ids,
            decoder_attention_mask=mask.expand(input_ids.shape[0], -1, -1, -1),
            past_key_values=cache,
            use_cache=True,
        )
        return (answer.logits[:, -1], *keys_and_values(cache.self_attention_cache))


class EncoderDecoderFramework(GenerationFramework):
    """A model that turns texts into others."""

    head = EncoderDecoderModel

    @property
    def description(self) -> str:
        """One-line description of the model."""
        return (
            f"{self._model.config.model_type}, up to {self.options.max_length} tokens, "
            f"answers up to {self.options.max_tokens}"
        )

    def room_for(self, prompt: Sequence[int]) -> int:
        """Return the most tokens of an output; raise if the input is too long."""
        if not 1 <= len(prompt) <= self.options.max_length:
            raise ExportError(
                f"a test text has {len(prompt)} tokens; expected 1 to {self.options.max_length}",
                remedy="shorten the text in test_inputs, or raise `max_length` in the recipe",
                code=ModelMismatchError.code,
            )
        return self.options.max_tokens

    def _export(self, folder: Path) -> ExportedGraph:
        # Sizes above 1 that differ, because the exporter treats size 1 as a constant, and equal ones as one.
        input_ids = torch.ones((2, 7), dtype=torch.long)
        reader, step = (kind(self._model, None).eval() for kind in (InputReader, OutputStep))
        with torch.inference_mode():
            cross = [torch.zeros_like(tensor) for tensor in reader(input_ids)]
        names = layer_names(len(cross))
        past = [tensor[:, :, :3] for tensor in cross]
        batch, length = torch.export.Dim("batch", min=1), torch.export.Dim("length", min=1)
        tokens, earlier = torch.export.Dim("tokens", min=1), torch.export.Dim("earlier", min=0)
        cross_names = [CROSS + name for name in names]
        save_graph(
            to_onnx(reader, (input_ids,), names=([INPUT], cross_names), sizes=({0: batch, 1: length},)),
            folder / ENCODER,
        )
        model = to_onnx(
            step,
            (torch.ones((2, 5), dtype=torch.long), *cross, *past),
            names=(
                [INPUT, *cross_names, *(PAST + name for name in names)],
                [LOGITS, *(PRESENT + name for name in names)],
            ),
            sizes=(
                {0: batch, 1: tokens},
                (*({0: batch, 2: length} for _ in cross), *({0: batch, 2: earlier} for _ in past)),
            ),
        )
        return save_graph(model, folder)

    def _options(self, recipe: GenerationRecipe) -> Options:
        config, settings = self._model.config, self._model.generation_config
        positions = getattr(config, "max_position_embeddings", None)
        usual = min(USUAL_LENGTH, self._tokenizer.model_max_length)
        start = settings.decoder_start_token_id
        start = settings.bos_token_id if start is None else start
        if start is None:
            raise UnsupportedModelError(
                "the model has no token to begin an output with",
                remedy="set decoder_start_token_id in generation_config.json",
            )
        return self._served_options(
            max_length=longest(recipe.max_length, positions=positions, usual=usual),
            max_tokens=min(recipe.max_tokens, positions - 1) if positions else recipe.max_tokens,
            start_token=start,
        )

    def _check_architecture(self) -> None:
        """Accept all: the head has checked the architecture before the weights were loaded."""


class _GivenLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values whose length may be 0, without a decision that cannot be exported."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values

    def get_seq_length(self) -> int:
        """Return the number of tokens."""
        keys: Any = self.keys
        length: int = keys.shape[-2]
        return length


def _cache_of(tensors: Sequence[torch.Tensor]) -> Any:
    cache = transformers.DynamicCache()
    cache.layers = [_GivenLayer(*tensors[place : place + 2]) for place in range(0, len(tensors), 2)]
    return cache
