"""Check tokenizers that transformers converted from a SentencePiece vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import normalizers

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
