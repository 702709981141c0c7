"""Tiny models with random weights for every Hugging Face task, in the file layout of the Hub."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.model_build.tiny import TEXTS, VOCABULARY, save_tokenizer

LABELS = {0: "calm", 1: "glad", 2: "cross"}
TOKEN_LABELS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"}
QUESTIONS = (
    ("Who is eating?", "A man is eating food. Two men are naïve."),
    ("What is carried?", "In 東京 the girl is carrying a baby, and the man a cart."),
)
_BERT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 60,
    "pad_token_id": 0,
    "initializer_range": 0.4,
}


def save_task_tokenizer(folder: Path, *, types: bool = True) -> None:
    """Save a tokenizer whose vocabulary has the words of the questions, too."""
    texts = [*TEXTS, *(text for pair in QUESTIONS for text in pair)]
    save_tokenizer(folder, texts=texts, types=types)


def save_text_model(
    folder: Path, architecture: str, *, labels: dict[int, str] | None = None, **changes: Any
) -> Path:
    """Save a text model by its class name in transformers, such as BertForSequenceClassification."""
    import torch
    import transformers

    save_task_tokenizer(folder, types=architecture.startswith("Bert"))
    model_class: Any = getattr(transformers, architecture)
    options = {**_BERT, **changes}
    if architecture.startswith("DistilBert"):
        names = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
        names["intermediate_size"] = "hidden_dim"
        options = {names.get(name, name): value for name, value in options.items()}
    if architecture.startswith("T5"):
        size = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
        options = {"vocab_size": VOCABULARY, **size}
    if labels is not None:
        options |= {"id2label": labels, "label2id": {label: place for place, label in labels.items()}}
    torch.manual_seed(11)
    model_class(model_class.config_class(**options)).save_pretrained(folder)
    return folder


def save_image_model(folder: Path, *, size: int = 32, **preprocessing: Any) -> Path:
    """Save a vision transformer and its preprocessing."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

    torch.manual_seed(11)
    config = ViTConfig(
        image_size=size,
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.4,
        id2label=LABELS,
        label2id={label: place for place, label in LABELS.items()},
    )
    ViTForImageClassification(config).save_pretrained(folder)
    processor: Any = ViTImageProcessorPil
    processor(**{"size": {"height": size, "width": size}, **preprocessing}).save_pretrained(folder)
    return folder


def save_clip_model(folder: Path) -> Path:
    """Save a text model and an image model with one projection, and the preprocessing of both."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel

    small = {"intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    text = {**small, **ids, "hidden_size": 32, "vocab_size": VOCABULARY, "max_position_embeddings": 30}
    image = {**small, "hidden_size": 48, "image_size": 32, "patch_size": 8}
    torch.manual_seed(11)
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=image, projection_dim=16))
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.3)
    model.save_pretrained(folder)
    processor: Any = CLIPImageProcessorPil
    processor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(folder)
    save_task_tokenizer(folder, types=False)
    return folder


def save_pictures(folder: Path, *names: str) -> None:
    """Save pictures of noise in the formats of their names."""
    from PIL import Image

    random = np.random.default_rng(2)
    for name in names:
        Image.fromarray(random.integers(0, 256, (50, 40, 3), dtype=np.uint8)).save(folder / name)
