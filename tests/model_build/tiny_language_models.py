"""Tiny causal language models of random weights, as a Hugging Face source has them."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

POSITIONS = 64
END = "<|end|>"
CORPUS = ["hello world, this is a tiny text for a tiny tokenizer, and a tiny model"] * 3


@cache
def tokenizer() -> Tokenizer:
    """A byte-level tokenizer, as GPT-2's: any text has tokens, and a token may be part of a character."""
    byte_level = Tokenizer(models.BPE())
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    byte_level.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=300, special_tokens=[END], initial_alphabet=alphabet)
    )
    return byte_level


def write_language_model(folder: Path, *, kind: str = "gpt2", **settings: Any) -> Path:
    """Write weights, configuration, and a tokenizer without a padding token."""
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": POSITIONS}
    # Some tokenizer classes add a token of their own.
    ends = {"vocab_size": tokenizer().get_vocab_size() + 2, "bos_token_id": 0, "eos_token_id": 0}
    layers = {"num_hidden_layers": 2, "intermediate_size": 64, "num_key_value_heads": 2}
    if kind == "gpt2":
        config = transformers.GPT2Config(n_positions=POSITIONS, n_embd=32, n_layer=2, n_head=4, **ends)
    else:
        config = transformers.AutoConfig.for_model(kind, **size, **layers, **ends, **settings)
    return _save(transformers.AutoModelForCausalLM.from_config(config), folder)


def write_encoder_decoder(folder: Path, *, kind: str, **settings: Any) -> Path:
    """Write weights, a tokenizer, and `settings` in generation_config.json."""
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    names = ("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads")
    size = dict.fromkeys(names, 2) | {"max_position_embeddings": POSITIONS}
    if kind == "t5":
        size = {"num_layers": 2, "num_heads": 2, "d_kv": 16}
    size |= {"d_model": 32, "d_ff": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1, "decoder_start_token_id": 1}
    vocabulary = tokenizer().get_vocab_size() + 2
    config = transformers.AutoConfig.for_model(kind, vocab_size=vocabulary, **size, **ends)
    return _save(transformers.AutoModelForSeq2SeqLM.from_config(config), folder, **settings)


def _save(model: Any, folder: Path, **settings: Any) -> Path:
    for parameter in model.parameters():  # far apart, so that no two tokens are equally likely
        parameter.data.normal_(0, 0.4)
    model.generation_config.update(**settings)
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer(), eos_token=END).save_pretrained(folder)
    return folder
