"""A text model with its tokenizer, in the framework."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from model_build.data import Array, FrameworkFiles
from model_build.errors import ExportError
from model_build.exporters.framework import Framework, require_numbers
from model_build.exporters.heads import SourceSettings, head_of
from model_build.exporters.loading import load_model, load_tokenizer, put_into_lower_case, quiet
from model_build.exporters.tokenizers import Sample, TextTokenizer, columns_of
from model_build.library_errors import brief
from tritonstack.files.model.recipes import TextRecipe

EXAMPLE_LENGTH = 7


class TextFramework(Framework):
    """The model, its tokenizer, and its outputs."""

    def __init__(self, files: FrameworkFiles) -> None:
        recipe: TextRecipe = files.recipe
        self._head_class: Any = head_of(recipe)
        settings: SourceSettings = self._head_class.read_source(files.folder, recipe)
        with quiet():
            loaded = load_model(replace(files, folder=settings.folder), self._head_class)
            self._tokenizer = load_tokenizer(settings.folder, trust=files.trust)
        model = loaded.model
        if settings.lowercase:
            put_into_lower_case(self._tokenizer)
        self.max_length = int(settings.recipe.max_length)
        """Truncation length in tokens."""
        self._pairs = recipe.takes in ("pairs", "questions")
        self._texts = TextTokenizer(
            self._tokenizer,
            max_length=self.max_length,
            truncation="only_second" if recipe.takes == "questions" else "longest_first",
        )
        self._vocabulary = int(model.get_input_embeddings().weight.shape[0])
        if getattr(model.config, "pad_token_id", None) is None:
            # Left-to-right classifiers look for the last token that is not padding.
            model.config.pad_token_id = self._tokenizer.pad_token_id
        self._check_vocabulary()
        head = self._head_class(model, settings.recipe)
        head.add_layers(settings, trust=files.trust)
        names = ["input_ids", "attention_mask"]
        if head.takes_token_types and self._passes_token_types():
            names.append("token_type_ids")
        self._names = tuple(names)
        # Sizes above 1, because the exporter treats size 1 as a constant.
        example = self.random_tokens(np.random.default_rng(0), batch=2, length=EXAMPLE_LENGTH)
        axes = {0: "batch", 1: "sequence"}
        super().__init__(head, example=example, axes=axes, unused_weights=loaded.unused)
        self._check_lengths()

    @property
    def description(self) -> str:
        """Vocabulary size and maximum text length."""
        return f"vocabulary of {self._vocabulary}, up to {self.max_length} tokens"

    @property
    def token_tensors(self) -> tuple[str, ...]:
        """Token tensors returned to callers that send texts."""
        tensors: tuple[str, ...] = self._head_class.token_tensors
        return tensors

    @property
    def answers_empty_text(self) -> bool:
        """Whether an empty text still has special tokens, and so an answer."""
        return self._texts.answers_empty_text

    def best_answers(self, samples: Sequence[Sample], *, max_answer_tokens: int) -> dict[str, Array]:
        """Return the framework's answers to questions, one row each."""
        tokens = self.tokenize(samples, extra=("offsets",))
        numbers = self.answer({name: tokens[name] for name in self.inputs})
        answers = [
            best_answer(
                sample[1],
                starts=numbers["start_logits"][row],
                ends=numbers["end_logits"][row],
                offsets=tokens["offsets"][row],
                max_answer_tokens=max_answer_tokens,
            )
            for row, sample in enumerate(samples)
        ]
        types = {"answer": np.object_, "score": np.float32, "start": np.int64, "end": np.int64}
        return {
            name: np.array([[answer[column]] for answer in answers], dtype=kind)
            for column, (name, kind) in enumerate(types.items())
        }

    def tokenize(self, samples: Sequence[Sample], extra: Iterable[str] = ()) -> dict[str, Array]:
        """Tokenize samples and pad them to one length, with the framework's tokenizer.

        `extra` names additional tensors, such as offsets: the position of each token in its text (or
        context); (0, 0) for special tokens.
        """
        return self._texts.tokenize(samples, (*self._names, *extra))

    def random_tokens(self, random: np.random.Generator, *, batch: int, length: int) -> dict[str, Array]:
        """Return rows of random tokens, each shorter than the last, between the usual special tokens."""
        ordinary = np.setdiff1d(np.arange(self._vocabulary), self._tokenizer.all_special_ids)
        before, after = self._frame()
        length = max(min(length, self.max_length), len(before) + len(after), 1)
        used = np.maximum(len(before) + len(after), np.maximum(1, length - np.arange(batch) * 3))
        ids = np.full((batch, length), self._tokenizer.pad_token_id, np.int64)
        for row, end in enumerate(used):
            body = random.choice(ordinary, end - len(before) - len(after))
            ids[row, :end] = [*before, *body, *after]
        mask = (np.arange(length) < used[:, None]).astype(np.int64)
        types = (np.arange(length) >= used[:, None] // 2).astype(np.int64) * mask
        tokens = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        return {name: tokens[name] for name in self._names}

    def other_example(self) -> dict[str, Array]:
        """Return an example with other batch and token counts."""
        return self.random_tokens(np.random.default_rng(0), batch=3, length=EXAMPLE_LENGTH + 4)

    def served_tokenizer(self) -> str:
        """Return the tokenizer as JSON, with padding and truncation explicit."""
        return self._texts.served()

    def _frame(self) -> tuple[list[int], list[int]]:
        """Return the special tokens before and after a text."""
        special, text = self._tokenizer("")["input_ids"], self._tokenizer("a")["input_ids"]
        before = sum(
            1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(special, text, strict=False))
        )
        return special[:before], special[before:]

    def _passes_token_types(self) -> bool:
        """Whether the tokenizer uses token types; only then does the graph need them."""
        sample: Sample = ("a", "a") if self._pairs else "a"
        texts, pairs = columns_of([sample])
        has_types = "token_type_ids" in self._tokenizer.model_input_names
        types = self._tokenizer(texts, pairs, return_token_type_ids=True)["token_type_ids"]
        return has_types and any(any(row) for row in types)

    def _check_vocabulary(self) -> None:
        """Reject token ids beyond the vocabulary, which would fail whole batches."""
        highest = max(self._tokenizer.get_vocab().values(), default=0)
        if highest >= self._vocabulary:
            raise ExportError(
                f"the tokenizer has token ids up to {highest}; the model's vocabulary has {self._vocabulary}",
                remedy="check that tokenizer.json and the weights match; after adding tokens, "
                "call resize_token_embeddings before saving",
            )

    def _check_lengths(self) -> None:
        """Run the shortest and the longest text: architectures count positions differently."""
        random = np.random.default_rng(0)
        try:
            require_numbers(self.answer(self.random_tokens(random, batch=1, length=1)))
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(
                f"the model fails: {type(error).__name__}: {brief(error)}",
                remedy="check that config.json, the tokenizer, and the weights match",
            ) from error
        try:
            self.answer(self.random_tokens(random, batch=1, length=self.max_length))
        except Exception as error:
            positions = getattr(self.head.config, "max_position_embeddings", "an unknown number of")
            raise ExportError(
                f"the model cannot take texts of {self.max_length} tokens ({brief(error)}); "
                f"it has {positions} positions",
                remedy="lower `recipe.max_length` in model.yaml",
            ) from error


def best_answer(
    context: str, *, starts: Array, ends: Array, offsets: Array, max_answer_tokens: int
) -> tuple[str, float, int, int]:
    """Return text, score, start, and end of the best span, for one row of logits."""
    tokens = [place for place, (begin, end) in enumerate(offsets) if end > begin]
    if not tokens:
        return "", 0.0, 0, 0
    chances_of_start = torch.softmax(torch.from_numpy(starts[tokens]).double(), dim=0)
    chances_of_end = torch.softmax(torch.from_numpy(ends[tokens]).double(), dim=0)
    best, span = -1.0, (0, 0)
    for i, first in enumerate(tokens):
        for j, last in enumerate(tokens[i:], start=i):
            chance = float(chances_of_start[i] * chances_of_end[j])
            if last - first < max_answer_tokens and chance > best:
                best, span = chance, (first, last)
    begin, end = int(offsets[span[0], 0]), int(offsets[span[1], 1])
    return context[begin:end], best, begin, end
