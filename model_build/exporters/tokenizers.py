"""The tokenizer of a text model, in the framework and as it is served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, normalizers

from model_build.data import Array
from model_build.errors import UnsupportedModelError
from model_build.library_errors import brief

PROBES = (
    "A man is eating food.",
    "THE GIRL (is) carrying a baby: 3.14 % of 1,000?",
    "naïve café, Ærøskøbing, straße, ﬁne, Ⅻ",
    "東京は日本の首都です。",
    "Привет, мир! مرحبا بالعالم",
    "two  spaces, a\ttab, and a\nline",
    " leading and trailing ",
    "e\u0301 is e with a combining accent",
    "\U0001f600 https://example.com/a_b?c=d#e user@example.com",
    "supercalifragilisticexpialidocious " * 3,
)


def match_pieces(tokenizer: Any, file: Path) -> None:
    """Require the same pieces from the converted tokenizer and from SentencePiece itself.

    Some conversions leave out the file's own normalization of characters; this adds it if that helps.
    """
    import sentencepiece  # noqa: PLC0415 - few models need it
    from sentencepiece import sentencepiece_model_pb2  # noqa: PLC0415 - as above

    try:
        original = sentencepiece.SentencePieceProcessor(model_file=str(file))
        messages: Any = sentencepiece_model_pb2  # which makes its classes when it is imported
        characters = messages.ModelProto.FromString(file.read_bytes()).normalizer_spec.precompiled_charsmap
    except Exception as error:  # the library raises what it likes
        raise UnsupportedModelError(
            f"{file.name} is not a SentencePiece vocabulary: {brief(error)}",
            remedy="fetch or copy the file again",
        ) from error
    if _difference(tokenizer, original) and characters:
        backend = tokenizer.backend_tokenizer
        others = [backend.normalizer] if backend.normalizer is not None else []
        backend.normalizer = normalizers.Sequence([normalizers.Precompiled(characters), *others])
    if difference := _difference(tokenizer, original):
        raise UnsupportedModelError(
            f"transformers cannot convert {file.name}: {difference}",
            remedy="add the tokenizer.json of the model, or save one with the version of transformers that "
            "the model was trained with: `AutoTokenizer.from_pretrained(...).save_pretrained(folder)`",
        )


def _difference(tokenizer: Any, original: Any) -> str | None:
    """Describe the first probe that both split differently."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    for text in PROBES:
        # Some tokenizers normalize before SentencePiece does, for example to lower case.
        plain = normalizer.normalize_str(text).replace("\u2581", " ") if normalizer else text
        expected = [
            "unknown" if original.is_unknown(piece) else original.id_to_piece(piece)
            for piece in original.encode(plain)
        ]
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        pieces = [
            "unknown" if number == tokenizer.unk_token_id else tokenizer.convert_ids_to_tokens(number)
            for number in ids
        ]
        if pieces != expected:
            return f"SentencePiece splits {text!r} into {expected}, the converted tokenizer into {pieces}"
    return None


Sample = str | tuple[str, str]
"""A text, or a pair: two texts, or a question with its context."""
TOKENS = ("input_ids", "attention_mask", "token_type_ids")


class TextTokenizer:
    """A fast tokenizer of transformers with its truncation."""

    def __init__(self, library: Any, *, max_length: int, truncation: str = "longest_first") -> None:
        self.library = library
        self.max_length = max_length
        self._truncation = truncation

    @property
    def answers_empty_text(self) -> bool:
        """Whether an empty text still has special tokens, and so an answer."""
        return bool(self.library("")["input_ids"])

    def tokenize(self, samples: Sequence[Sample], names: Iterable[str]) -> dict[str, Array]:
        """Tokenize samples and pad them to one length, with the framework's tokenizer.

        `names` are those of the graph's inputs, or offsets: the position of each token in its text (or
        context); (0, 0) for special tokens.
        """
        texts, pairs = columns_of(samples)
        tokens = self.library(
            texts,
            pairs,
            padding=True,
            truncation=self._truncation,
            max_length=self.max_length,
            return_token_type_ids=True,
            return_offsets_mapping=True,
            return_tensors="np",
        )
        arrays = arrays_of(tokens) | {"offsets": arrays_of(tokens)["offset_mapping"]}
        if pairs:
            sequences = [tokens.sequence_ids(row) for row in range(len(texts))]
            is_context = np.array([[place == 1 for place in row] for row in sequences])
            arrays["offsets"] = arrays["offsets"] * is_context[..., None]
        return {name: arrays[name] for name in names}

    def served(self) -> str:
        """Return the tokenizer as JSON, with padding and truncation explicit."""
        tokenizer = Tokenizer.from_str(self.library.backend_tokenizer.to_str())
        tokenizer.enable_truncation(
            max_length=self.max_length,
            strategy=self._truncation,
            direction=self.library.truncation_side,
        )
        tokenizer.enable_padding(
            direction="right",
            pad_id=self.library.pad_token_id,
            pad_token=self.library.pad_token,
            pad_type_id=self.library.pad_token_type_id,
        )
        return str(tokenizer.to_str(pretty=False))


def columns_of(samples: Sequence[Sample]) -> tuple[list[str], list[str] | None]:
    """Return the texts, and the second texts of pairs."""
    pairs = [sample for sample in samples if not isinstance(sample, str)]
    if pairs:
        return [first for first, _ in pairs], [second for _, second in pairs]
    return [sample for sample in samples if isinstance(sample, str)], None


def arrays_of(tokens: Mapping[str, Any]) -> dict[str, Array]:
    """Convert a tokenizer's output to INT64."""
    return {name: np.asarray(values).astype(np.int64) for name, values in tokens.items()}
