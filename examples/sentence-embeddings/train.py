"""Train a small MPNet sentence encoder, and save it as sentence-transformers saves one.

It stands in for all-mpnet-base-v2 where no model hub is reachable: the same architecture, pooling, and files,
with 2 layers of 64 instead of 12 of 768. All random numbers are seeded. It runs for a few seconds on a CPU.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import MPNetConfig, MPNetModel, PreTrainedTokenizerFast

WEIGHTS = Path(__file__).parent / "models" / "mpnet" / "weights"
# Each row has phrases of one meaning.
PEOPLE = (
    ("a man", "someone", "a person"),
    ("my sister", "the girl", "a young lady"),
    ("a child", "a small kid", "a little boy"),
    ("our neighbor", "the lady next door", "the man who lives here"),
)
ACTIONS = (
    ("is eating food", "is having a meal", "enjoys dinner"),
    ("plays the guitar", "makes music", "performs a song on strings"),
    ("is riding a horse", "gallops across a field", "sits in the saddle"),
    (
        "pushes a cart through the woods",
        "moves a wagon in the forest",
        "is walking among trees with a trolley",
    ),
    ("bought a new phone", "purchased a mobile device", "has ordered the latest smartphone"),
    ("cannot pay the loan", "has trouble with money", "owes the bank a lot"),
)
MEANINGS = list(itertools.product(PEOPLE, ACTIONS))
STEPS, TEMPERATURE, LENGTH = 80, 0.05, 64


def sentence(meaning: tuple[tuple[str, ...], tuple[str, ...]], person: int, action: int) -> str:
    """Return one of the nine sentences of a meaning."""
    return f"{meaning[0][person]} {meaning[1][action]}.".capitalize()


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a WordPiece tokenizer with MPNet's special tokens, all words of the sentences, and all letters.

    A trained vocabulary would differ from run to run: WordPiece's trainer does not order equal pairs.
    """
    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    texts = (sentence(meaning, one, two) for meaning in MEANINGS for one in range(3) for two in range(3))
    split = (splitter.pre_tokenize_str(normalizer.normalize_str(text)) for text in texts)
    words = {word for pieces in split for word, _ in pieces}
    letters = {start + letter for letter in "abcdefghijklmnopqrstuvwxyz0123456789" for start in ("", "##")}
    vocabulary = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>", *sorted(words | letters)]
    tokenizer = Tokenizer(
        models.WordPiece(vocab={token: index for index, token in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="[UNK]",
        mask_token="<mask>",
        model_max_length=LENGTH,
    )


def embed(model: MPNetModel, tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> torch.Tensor:
    """Return the mean of each text's token vectors, scaled to length 1."""
    tokens = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    vectors = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((vectors * mask).sum(1) / mask.sum(1), dim=1)


def train(tokenizer: PreTrainedTokenizerFast) -> MPNetModel:
    """Pull two sentences of one meaning together, and push the meanings of a batch apart."""
    torch.set_num_threads(1)  # equal weights on any number of cores; small models train fastest so
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(7)
    config = MPNetConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=LENGTH + 2,
    )
    model = MPNetModel(config, add_pooling_layer=False).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        picks = torch.randint(3, (len(MEANINGS), 4), generator=generator).tolist()
        first = embed(
            model, tokenizer, [sentence(m, p[0], p[1]) for m, p in zip(MEANINGS, picks, strict=True)]
        )
        other = embed(
            model, tokenizer, [sentence(m, p[2], p[3]) for m, p in zip(MEANINGS, picks, strict=True)]
        )
        loss = torch.nn.functional.cross_entropy(first @ other.T / TEMPERATURE, torch.arange(len(MEANINGS)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {loss.item():.3f}")
    return model.eval()


def save(model: MPNetModel, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write the files of a sentence-transformers model."""
    model.save_pretrained(WEIGHTS)
    tokenizer.save_pretrained(WEIGHTS)
    steps = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{name}"}
        for index, (path, name) in enumerate(steps)
    ]
    settings = {
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": LENGTH, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": model.config.hidden_size,
            "pooling_mode_mean_tokens": True,
        },
    }
    for name, content in settings.items():
        file = WEIGHTS / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    made = make_tokenizer()
    save(train(made), made)
    print(f"wrote {WEIGHTS}")
