"""Train a small RoBERTa that rates texts as negative, neutral, or positive, and save it as transformers does.

It stands in for cardiffnlp/twitter-roberta-base-sentiment where no model hub is reachable: the same
architecture, tokenizer, and labels, with 2 layers of 64 instead of 12 of 768. All random numbers are seeded.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForSequenceClassification

from sentences import SENTENCES

HERE = Path(__file__).parent
SERVED = ("sentiment-onnx", "sentiment-torchscript")
LABELS = ("negative", "neutral", "positive")
THINGS = ("movie", "book", "song", "phone", "hotel", "meal", "train", "game", "city", "shop", "you", "them")
DAYS = ("tomorrow", "today", "on Monday", "next week", "at noon", "in the evening")
PATTERNS = {
    "positive": (
        "I love {} so much!",
        "I really love {}",
        "What a great {}!",
        "This {} is wonderful.",
        "I am happy with the {}, thank you",
        "The best {} ever, I enjoyed it a lot!",
        "{} made me smile so much",
    ),
    "negative": (
        "I hate {}",
        "I hate this {}!",
        "What a terrible {}!",
        "This {} is awful.",
        "I am angry about the {}, never again",
        "The worst {} ever, I want my money back!",
        "{} made me cry, so bad",
    ),
}
NEUTRAL = (
    "Ok, we meet {}.",
    "Let's see the {1} {0}",
    "Ok, the {1} starts {0}.",
    "The {1} is open {0}.",
    "See you {}",
)
EPOCHS, LENGTH = 12, 64


def training_texts() -> list[tuple[str, int]]:
    """Return all texts with the index of their label, without the document's sentences."""
    texts = [
        (pattern.format(thing), label)
        for label, patterns in PATTERNS.items()
        for pattern, thing in itertools.product(patterns, THINGS)
    ]
    texts += [
        (text.format(day, thing), "neutral")
        for text, day, thing in itertools.product(NEUTRAL, DAYS, THINGS[:10])
    ]
    return [(text, LABELS.index(label)) for text, label in dict(texts).items() if text not in SENTENCES]


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer with RoBERTa's special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=LENGTH,
    )


def scores(
    model: RobertaForSequenceClassification, tokenizer: PreTrainedTokenizerFast, texts: list[str]
) -> torch.Tensor:
    """Return the logits of some texts."""
    return model(**tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)).logits


def train(
    tokenizer: PreTrainedTokenizerFast, texts: list[tuple[str, int]]
) -> RobertaForSequenceClassification:
    """Train on batches of 64 texts."""
    torch.manual_seed(3)
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=LENGTH + 2,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        type_vocab_size=1,
        id2label=dict(enumerate(LABELS)),
        label2id={label: index for index, label in enumerate(LABELS)},
    )
    model = RobertaForSequenceClassification(config).train()
    # Rare classes count more: there are fewer positive and negative texts than neutral ones.
    counts = torch.bincount(torch.tensor([label for _, label in texts]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    for epoch in range(EPOCHS):
        for batch in torch.randperm(len(texts)).split(64):
            chosen = [texts[index] for index in batch]
            labels = torch.tensor([label for _, label in chosen])
            logits = scores(model, tokenizer, [text for text, _ in chosen])
            loss = torch.nn.functional.cross_entropy(logits, labels, weight=counts.sum() / counts)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch in {0, EPOCHS - 1}:
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
    return model.eval()


def main() -> None:
    """Train, show the document's sentences, and save the model for each format."""
    torch.set_num_threads(1)  # equal weights on any number of cores; small models train fastest so
    texts = training_texts()
    tokenizer = train_tokenizer([text for text, _ in texts])
    model = train(tokenizer, texts)
    with torch.no_grad():
        found = scores(model, tokenizer, list(SENTENCES)).softmax(dim=1)
    for text, row in zip(SENTENCES, found, strict=True):
        print(f"{LABELS[row.argmax()]} {row.max():.3f}  {text}")
    for name in SERVED:
        folder = HERE / "models" / name / "weights"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        print(f"wrote {folder}")


if __name__ == "__main__":
    main()
