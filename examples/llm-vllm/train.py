"""Train a small GPT-2 on a few stories, and save it as transformers does.

It stands in for a pretrained language model where no model hub is reachable: the same architecture and kind
of tokenizer, with 2 layers of 64 instead of 12 of 768. All random numbers are seeded.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

HERE = Path(__file__).parent
WEIGHTS = HERE / "models/storyteller/weights"
END = "<|endoftext|>"
WHO = ("the old engineer", "a young pilot", "the captain", "a quiet child")
WHERE = ("in the harbor", "on the mountain", "at the station", "near the lighthouse")
WHAT = ("found a broken machine", "heard a strange song", "opened a small box", "lost a golden key")
THEN = (
    "It took all night, but in the morning everything worked again.",
    "Nobody believed the story, so a friend came along the next day.",
    "The wind grew cold, and the lamp went out.",
)
STEPS, LENGTH = 150, 48


def stories() -> list[str]:
    """Return all stories, in three beginnings."""
    found = []
    for index, (who, where, what) in enumerate(itertools.product(WHO, WHERE, WHAT)):
        last = THEN[index % len(THEN)]
        found.append(f"Once upon a time, {who} {where} {what}. {last}")
        found.append(f"{who.capitalize()} {where} {what}. {last}")
        found.append(f"{where.capitalize()}, {who} {what}. {last}")
    return found


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer without a padding token, as GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, bos_token=END)


def train(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> GPT2LMHeadModel:
    """Train on batches of 16 stories, each with the token that ends it."""
    torch.manual_seed(3)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=2 * LENGTH,
        n_embd=64,
        n_layer=2,
        n_head=4,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config).train()
    ends = tokenizer.eos_token_id
    rows = [tokenizer(f"{text}{END}")["input_ids"][:LENGTH] for text in texts]
    ids = torch.tensor([row + [ends] * (LENGTH - len(row)) for row in rows])
    sizes = torch.tensor([len(row) for row in rows])
    labels = ids.masked_fill(torch.arange(LENGTH)[None] >= sizes[:, None], -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(STEPS):
        chosen = torch.randint(len(ids), (16,))
        loss = model(input_ids=ids[chosen], labels=labels[chosen]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in {0, STEPS - 1}:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    return model.eval()


def main() -> None:
    """Train, and save the model with its tokenizer."""
    torch.set_num_threads(1)  # equal weights on any number of cores; small models train fastest so
    texts = stories()
    tokenizer = train_tokenizer(texts)
    train(tokenizer, texts).save_pretrained(WEIGHTS)
    tokenizer.save_pretrained(WEIGHTS)
    print(f"wrote {WEIGHTS}")


if __name__ == "__main__":
    main()
