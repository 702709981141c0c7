"""A text encoder of a few kilobytes with random weights, in the file layout of the Hub."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tritonstack.base.yaml import Document, load_document
from tritonstack.files.model.model import ModelSpec

TEXTS = ("A man is eating food.", "The girl is carrying a baby.", "naïve café, 東京", "two men and a cart")
VOCABULARY = 120
POSITIONS = 40


def save_tiny_model(folder: Path) -> Path:
    import torch
    from transformers import BertConfig, BertModel

    save_tokenizer(folder)
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def save_tokenizer(folder: Path, *, texts: Sequence[str] = TEXTS, types: bool = True) -> None:
    """Save a WordPiece tokenizer that joins pairs as BERT's does; without `types`, as RoBERTa's."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    second = "1" if types else "0"
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair=f"[CLS] $A [SEP] $B:{second} [SEP]:{second}",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    wrapper: Any = PreTrainedTokenizerFast
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    wrapper(tokenizer_object=tokenizer, model_input_names=inputs, **names).save_pretrained(folder)


def write_model(
    folder: Path, *, name: str = "tiny", source: str, extra: str = "", takes: str = "text"
) -> Document[ModelSpec]:
    """Write a model.yaml for such an encoder."""
    recipe = f"kind: text-embedding, input: {takes}, max_length: 24"
    return load_document(
        write_model_file(folder, recipe=recipe, source=source, name=name, extra=extra), ModelSpec
    )


def write_model_file(
    folder: Path,
    *,
    recipe: str,
    source: str | Path,
    tests: Sequence[str] = TEXTS,
    name: str = "tiny",
    extra: str = "",
) -> Path:
    """Write a model.yaml with a recipe and test inputs as YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    file, place = folder / "model.yaml", source if isinstance(source, str) else f"file://{source}"
    lines = "".join(f"  - {test}\n" for test in tests)
    file.write_text(
        f"name: {name}\ndescription: Tiny.\nsource: {place}\nrecipe: {{{recipe}}}\n"
        f"batching: {{max_batch: 4}}\ntest_inputs:\n{lines}{trusting(place)}{extra}"
    )
    return file


def trusting(source: str) -> str:
    """Return the `trust` block for a source outside the model's folder."""
    reason = "trust: {external_source: shared by the tests of a session}\n"
    return reason if source.startswith(("file:///", "file://..")) else ""
