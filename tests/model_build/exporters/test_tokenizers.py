"""Tokenizers without tokenizer.json, and without a padding token."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import transformers
from tokenizers import Tokenizer

from model_build.errors import ExportError
from model_build.exporters.loading import load_tokenizer
from model_build.exporters.tokenizers import PROBES
from tests.model_build.frameworks import change_json, framework_of
from tests.model_build.tiny import TEXTS
from tests.model_build.tiny_tasks import LABELS, save_text_model
from tritonstack.files.model.fields import UNTRUSTED

SPECIAL = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "t5": ("spiece.model", "T5Tokenizer", {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}),
    "xlm-roberta": ("sentencepiece.bpe.model", "XLMRobertaTokenizer", {}),
    "camembert": ("sentencepiece.bpe.model", "CamembertTokenizer", {}),
    "albert": (
        "spiece.model",
        "AlbertTokenizer",
        {**SPECIAL, "control_symbols": ["[CLS]", "[SEP]"], "user_defined_symbols": ["[MASK]"]},
    ),
    "deberta-v2": (
        "spm.model",
        "DebertaV2Tokenizer",
        {
            **{"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "[PAD]"},
            **{"bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"},
        },
    ),
}


def save_pieces(folder: Path, family: str) -> Path:
    """Save a SentencePiece vocabulary as the Hub has it, without tokenizer.json."""
    name, tokenizer_class, settings = FAMILIES[family]
    folder.mkdir(exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXTS, *PROBES] * 3),
        model_prefix=str(folder / "pieces"),
        vocab_size=400,
        hard_vocab_limit=False,
        minloglevel=2,
        **settings,
    )
    (folder / "pieces.vocab").unlink()
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer_class}))
    return (folder / "pieces.model").rename(folder / name)


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_become_a_fast_tokenizer(tmp_path, family):
    original = sentencepiece.SentencePieceProcessor(model_file=str(save_pieces(tmp_path, family)))
    tokenizer = load_tokenizer(tmp_path, trust=UNTRUSTED)
    assert tokenizer.is_fast
    served = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    for text in ("ﬁne words, Ⅻ times", "naïve café", "two  spaces"):
        plain = text.lower() if family == "albert" else text
        expected = original.encode(plain, out_type=str)
        pieces = served.encode(text, add_special_tokens=False).tokens
        if family == "albert":  # which also removes accents
            assert len(pieces) == len(served.encode(plain, add_special_tokens=False).tokens)
        else:
            assert [piece for piece in pieces if piece != tokenizer.unk_token] == [
                piece for piece in expected if not original.is_unknown(original.piece_to_id(piece))
            ]


def test_a_conversion_that_splits_differently_is_rejected(tmp_path, monkeypatch):
    save_pieces(tmp_path, "xlm-roberta")
    encode = sentencepiece.SentencePieceProcessor.encode
    monkeypatch.setattr(
        sentencepiece.SentencePieceProcessor,
        "encode",
        lambda self, text, **options: encode(self, text, **options)[1:],
    )
    with pytest.raises(ExportError, match=r"sentencepiece\.bpe\.model: Sentence"):
        load_tokenizer(tmp_path, trust=UNTRUSTED)


def without_padding(folder: Path, **config: Any) -> Path:
    """Save a left-to-right classifier whose tokenizer has an end, and no padding token."""
    save_text_model(folder, "GPT2ForSequenceClassification", labels=LABELS, n_embd=32, n_head=2, n_layer=2)
    change_json(folder / "tokenizer_config.json", pad_token=None, eos_token="[SEP]")
    return change_json(folder / "config.json", **{"pad_token_id": None, **config})


@pytest.mark.parametrize(("config", "padding"), [({}, "[SEP]"), ({"pad_token_id": 1}, "[UNK]")])
def test_padding_without_a_padding_token(tmp_path, config, padding):
    """Each text gets the answer that it gets alone, without padding."""
    framework = framework_of(without_padding(tmp_path, **config), "text-classification", max_length=24)
    assert Tokenizer.from_str(framework.served_tokenizer()).padding["pad_token"] == padding
    alone = [framework.answer(framework.tokenize([text]))["scores"][0] for text in TEXTS]
    together = framework.answer(framework.tokenize(TEXTS))["scores"]
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_a_tokenizer_of_special_tokens_alone_is_rejected(tmp_path):
    """As transformers 5 makes it from `BertTokenizerFast(vocab_file=...)`: each word would be unknown."""
    transformers.BertTokenizerFast().save_pretrained(tmp_path)
    with pytest.raises(ExportError, match="only special tokens") as error:
        load_tokenizer(tmp_path, trust=UNTRUSTED)
    assert "ignores `vocab_file=`" in str(error.value.remedy)
