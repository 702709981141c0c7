"""Train a small Whisper on synthetic speech, and write what `models/speech` serves.

It stands in for openai/whisper-small where no model hub is reachable: the same architecture, with an encoder
of 2 layers of 64 instead of 12 of 768, and windows of 3 seconds instead of 30. All random numbers are seeded.
"""

from __future__ import annotations

import logging
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

from tones import RATE, WORDS, Samples, speak, write_wav

HERE = Path(__file__).parent
WEIGHTS = HERE / "models/speech/weights"
PRETRAINED = HERE / "models/whisper-small/weights"
PAD, BEGIN, END = 0, 1, 2
WINDOW_S, MOST_WORDS, MOST_TOKENS = 3, 6, 8
UTTERANCES, STEPS, BATCH, LEARNING_RATE = 512, 500, 16, 4e-3
NEW_UTTERANCES, LEAST_ACCURACY = 64, 0.9
FIRST_WORD = 3


def extractor() -> WhisperFeatureExtractor:
    """Return Whisper's own feature extraction, for short windows."""
    return WhisperFeatureExtractor(feature_size=80, chunk_length=WINDOW_S)


def new_model() -> Any:
    """Return an untrained model."""
    config = WhisperConfig(
        vocab_size=FIRST_WORD + len(WORDS),
        d_model=64,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_source_positions=WINDOW_S * 50,
        max_target_positions=MOST_TOKENS + 1,
        max_length=MOST_TOKENS,
        pad_token_id=PAD,
        bos_token_id=BEGIN,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        dropout=0.0,
        attn_implementation="eager",
    )
    return WhisperForConditionalGeneration(config)


def utterance(random: np.random.Generator) -> tuple[list[str], Samples]:
    """Return random words, and their sound of at most one window."""
    while True:
        words = [str(word) for word in random.choice(WORDS, size=random.integers(1, MOST_WORDS + 1))]
        sound = speak(words, random)
        if len(sound) <= WINDOW_S * RATE:
            return words, sound


def utterances(count: int, random: np.random.Generator) -> tuple[Any, Any]:
    """Return the features and labels of random utterances."""
    sounds, labels = [], np.full((count, MOST_TOKENS), -100)
    for row in range(count):
        words, sound = utterance(random)
        sounds.append(sound)
        tokens = [FIRST_WORD + WORDS.index(word) for word in words] + [END]
        labels[row, : len(tokens)] = tokens
    features = extractor()(sounds, sampling_rate=RATE, return_tensors="pt").input_features
    return features, torch.tensor(labels)


def train() -> Any:
    """Return a trained model."""
    torch.set_num_threads(1)  # the model is small: threads would wait for each other
    torch.manual_seed(3)
    model = new_model()
    inputs, labels = utterances(UTTERANCES, np.random.default_rng(3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=STEPS)
    model.train()
    for step in range(STEPS):
        rows = torch.randint(UTTERANCES, (BATCH,))
        loss = model(input_features=inputs[rows], labels=labels[rows]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)
    return model.eval()


def accuracy(model: Any) -> float:
    """Return the share of new utterances of which every word is right."""
    inputs, labels = utterances(NEW_UTTERANCES, np.random.default_rng(5))
    with torch.inference_mode():
        found = model.generate(inputs, do_sample=False)
    expected = [[token for token in row if token > END] for row in labels.tolist()]
    equal = [
        [token for token in row if token > END] == right
        for row, right in zip(found.tolist(), expected, strict=True)
    ]
    return sum(equal) / len(equal)


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token per word."""
    vocabulary = {"<pad>": PAD, "<s>": BEGIN, "</s>": END}
    vocabulary |= {word: FIRST_WORD + index for index, word in enumerate(WORDS)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(list(vocabulary)[:FIRST_WORD])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


class Decoder(torch.nn.Module):
    """The scores of the next token."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Any, states: Any) -> Any:
        """Return one score per token of the vocabulary."""
        hidden = self.model.model.decoder(
            input_ids=tokens, encoder_hidden_states=states, use_cache=False
        ).last_hidden_state
        return self.model.proj_out(hidden[:, -1])


class Encoder(torch.nn.Module):
    """The states of a window."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, features: Any) -> Any:
        """Return one state per 20 ms."""
        return self.encoder(features).last_hidden_state


def export(model: Any, folder: Path) -> None:
    """Write both halves as ONNX, for a server without PyTorch."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="torch|copyreg")  # the exporter's own
    features = torch.zeros(2, 80, WINDOW_S * 100)
    states = torch.zeros(2, WINDOW_S * 50, 64)
    tokens = torch.tensor([[BEGIN, FIRST_WORD, FIRST_WORD]] * 2)
    batch, length = (
        torch.export.Dim("batch", min=1, max=64),
        torch.export.Dim("length", min=1, max=MOST_TOKENS),
    )
    for name, module, inputs, shapes in (
        ("encoder", Encoder(model).eval(), (features,), ({0: batch},)),
        ("decoder", Decoder(model).eval(), (tokens, states), ({0: batch, 1: length}, {0: batch})),
    ):
        program = torch.onnx.export(
            module, inputs, dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False
        )
        program.save(str(folder / f"{name}.onnx"))


def write_samples(folder: Path) -> None:
    """Write sounds to test the model with: shorter than a window, as long as one, and longer."""
    random = np.random.default_rng(4)
    words: dict[str, list[str]] = {
        "short": ["so", "mi", "do"],
        "window": ["do", "re", "mi", "fa", "so"],
        "long": [str(word) for word in random.choice(WORDS, size=20)],
    }
    folder.mkdir()
    for name, spoken in words.items():
        if name == "window":
            sound = speak(spoken, random, pauses=0)
            sound = np.pad(sound, (0, WINDOW_S * RATE - len(sound)))
        else:
            sound = speak(spoken, random)
        write_wav(folder / f"{name}.wav", sound)
        (folder / f"{name}.txt").write_text(" ".join(spoken), encoding="utf-8")
        np.savez(folder / f"{name}.npz", AUDIO=sound[None], RATE=np.array([[RATE]], np.int32))


def main() -> int:
    """Write the model, and sounds to test it with."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = train()
    share = accuracy(model)
    print(f"all words right in {share:.0%} of {NEW_UTTERANCES} new utterances")
    if share < LEAST_ACCURACY:
        print(f"expected at least {LEAST_ACCURACY:.0%}; nothing was written", file=sys.stderr)
        return 1
    shutil.rmtree(WEIGHTS, ignore_errors=True)
    (served := WEIGHTS / "served").mkdir(parents=True)
    for part in (model, extractor(), tokenizer()):
        part.save_pretrained(WEIGHTS / "transformers")
    shutil.copy(WEIGHTS / "transformers/tokenizer.json", served)
    np.save(served / "mel_filters.npy", extractor().mel_filters.astype(np.float32))
    with torch.no_grad():
        export(model, served)
    write_samples(WEIGHTS / "samples")
    PRETRAINED.mkdir(exist_ok=True)
    shutil.copy(WEIGHTS / "samples/short.npz", PRETRAINED / "tones.npz")
    print(f"wrote {WEIGHTS.relative_to(HERE)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
