"""A causal language model: the graph of one step of a completion.

The graph takes new tokens, and the keys and values of all earlier ones (`past.*`). It returns the scores of
the next token, and the keys and values with the new tokens (`present.*`).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import transformers

from model_build.data import ExportedGraph
from model_build.errors import ExportError, UnsupportedModelError
from model_build.exporters.framework import to_onnx
from model_build.exporters.generating.framework import (
    REMEDY,
    GenerationFramework,
    causal_mask,
    keys_and_values,
    layer_names,
    longest,
)
from model_build.exporters.heads import Head
from model_build.graphs.onnx_files import save_graph
from model_build.served.generation import INPUT, LOGITS, PAST, PRESENT, Options
from tritonstack.base.error_kinds import ModelMismatchError
from tritonstack.files.model.recipes import GenerationRecipe


class CausalLanguageModel(Head):
    """One step of a completion."""

    task: ClassVar[str] = "text generation"
    outputs: ClassVar[tuple[str, ...]] = (LOGITS,)

    @classmethod
    def auto_class(cls, config: Any) -> Any:
        """Return the class for causal language models."""
        if getattr(config, "is_encoder_decoder", False):
            raise UnsupportedModelError(
                f"{config.model_type} is an encoder-decoder model, which does not continue its input",
                remedy="use the recipe text-to-text",
            )
        return transformers.AutoModelForCausalLM

    def forward(self, input_ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the scores after the last token, then all keys and values."""
        pairs = [(past[place], past[place + 1]) for place in range(0, len(past), 2)]
        earlier, new = past[0].shape[2], input_ids.shape[1]
        positions = torch.arange(new) + earlier
        answer = self.encoder(
            input_ids=input_ids,
            position_ids=positions[None].expand_as(input_ids),
            attention_mask=causal_mask(earlier=earlier, new=new).expand(input_ids.shape[0], -1, -1, -1),
            past_key_values=transformers.DynamicCache(pairs),
            use_cache=True,
        )
        return (answer.logits[:, -1], *keys_and_values(answer.past_key_values))


class CausalFramework(GenerationFramework):
    """A model that continues texts."""

    head = CausalLanguageModel

    @property
    def description(self) -> str:
        """One-line description of the model."""
        return f"{self._model.config.model_type}, up to {self.options.max_length} tokens with the completion"

    def room_for(self, prompt: Sequence[int]) -> int:
        """Return the most tokens of a prompt's completion; raise if there are none."""
        room = min(self.options.max_tokens, self.options.max_length - len(prompt))
        if not prompt or room < 1:
            raise ExportError(
                f"a test text has {len(prompt)} tokens; expected 1 to {self.options.max_length - 1}",
                remedy="shorten the text in test_inputs, or raise `max_length` in the recipe",
                code=ModelMismatchError.code,
            )
        return room

    def _export(self, folder: Path) -> ExportedGraph:
        # Sizes above 1, because the exporter treats size 1 as a constant.
        with torch.inference_mode():
            answer = self._model(torch.ones((2, 3), dtype=torch.long), use_cache=True)
        past = [torch.zeros_like(tensor) for tensor in keys_and_values(answer.past_key_values)]
        names = layer_names(len(past))
        batch, tokens = torch.export.Dim("batch", min=1), torch.export.Dim("tokens", min=1)
        earlier = torch.export.Dim("earlier", min=0)
        model = to_onnx(
            CausalLanguageModel(self._model, None).eval(),
            (torch.ones((2, 5), dtype=torch.long), *past),
            names=(
                [INPUT, *(PAST + name for name in names)],
                [LOGITS, *(PRESENT + name for name in names)],
            ),
            sizes=({0: batch, 1: tokens}, tuple({0: batch, 2: earlier} for _ in past)),
        )
        return save_graph(model, folder)

    def _options(self, recipe: GenerationRecipe) -> Options:
        config, settings = self._model.config, self._model.generation_config
        length = longest(recipe.max_length, positions=getattr(config, "max_position_embeddings", None))
        begin = settings.bos_token_id if settings.bos_token_id is not None else config.bos_token_id
        return self._served_options(
            max_length=length, max_tokens=min(recipe.max_tokens, length - 1), begin_token=begin
        )

    def _check_architecture(self) -> None:
        """Reject models whose state is more than keys and values, or whose layers see only some tokens."""
        model = self._model
        accepted = inspect.signature(model.forward).parameters
        kinds = set(getattr(model.config, "layer_types", None) or ())
        window = getattr(model.config, "sliding_window", None)
        if "past_key_values" not in accepted or "position_ids" not in accepted:
            problem = f"{type(model).__name__} does not take past_key_values and position_ids"
        elif kinds - {"full_attention"} or (window and not kinds):
            problem = f"{model.config.model_type} has layers that see only some of the tokens"
        else:
            return
        raise UnsupportedModelError(problem, remedy=REMEDY)
