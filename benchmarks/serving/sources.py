"""Models of the benchmarks with random weights: RoBERTa-base, ResNet-50, and XGBoost, each made once.

Speed does not depend on the values of the weights. The seeds are fixed, so that every run builds the same
artifacts.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.serving.requests import WORDS, texts

FEATURES, TREES, DEPTH = 30, 100, 6
PIXELS = (3, 224, 224)
LABELS = 1000
SEED = 2026
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
VOCABULARY = 2000


def write_model(folder: Path, name: str) -> Path:
    """Write the model's source and model.yaml unless they exist; return model.yaml."""
    place = folder / name
    if not (place / "model.yaml").is_file():
        work = folder / f"{name}.new"
        shutil.rmtree(work, ignore_errors=True)
        (work / "weights").mkdir(parents=True)
        save, fields = MODELS[name]
        save(work)
        document = {"name": name, "source": "file://weights", **fields}
        (work / "model.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
        work.rename(place)
    return place / "model.yaml"


def save_roberta(folder: Path) -> None:
    """Save an encoder of RoBERTa-base's size with a byte-level tokenizer of the benchmark's words."""
    import torch  # noqa: PLC0415 - slow to import, and only needed the first time
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: PLC0415
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel  # noqa: PLC0415

    tokenizer: Any = Tokenizer(models.BPE(unk_token="<unk>"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*WORDS, *texts()], trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    wrapper: Any = PreTrainedTokenizerFast
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    names |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    wrapper(
        tokenizer_object=tokenizer, model_input_names=["input_ids", "attention_mask"], **names
    ).save_pretrained(folder / "weights")
    torch.manual_seed(SEED)
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        max_position_embeddings=514,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
    )
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder / "weights")


def save_resnet(folder: Path) -> None:
    """Save a classifier of ResNet-50's size, and test images."""
    import PIL.Image  # noqa: PLC0415 - as above
    import torch  # noqa: PLC0415 - as above
    from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessorPil  # noqa: PLC0415

    torch.manual_seed(SEED)
    config: Any = ResNetConfig
    ResNetForImageClassification(config(num_labels=LABELS)).save_pretrained(folder / "weights")
    processor: Any = ViTImageProcessorPil
    processor(size={"height": PIXELS[1], "width": PIXELS[2]}).save_pretrained(folder / "weights")
    for number in range(2):
        colors = np.random.default_rng(number).integers(0, 256, (PIXELS[1], PIXELS[2], 3), np.uint8)
        PIL.Image.fromarray(colors).save(folder / f"noise-{number}.png")


def save_xgboost(folder: Path) -> None:
    """Train a classifier of 100 trees, and save test rows."""
    import xgboost  # noqa: PLC0415 - as above

    rows = features(4000)
    labels = (rows[:, :10].sum(1) + rows[:, 10] * rows[:, 11] > 0).astype(np.int32)
    options = {"objective": "binary:logistic", "max_depth": DEPTH, "nthread": 1, "seed": SEED}
    booster = xgboost.train(options, xgboost.DMatrix(rows, labels), num_boost_round=TREES)
    booster.save_model(folder / "weights" / "model.json")
    np.savez(folder / "rows.npz", input__0=rows[:20])


def features(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the same rows of features in every run."""
    return np.random.default_rng(SEED).standard_normal((count, FEATURES)).astype(np.float32)


def pixels(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the same scaled images in every run: noise of different brightness and contrast."""
    random = np.random.default_rng(SEED)
    contrast = random.uniform(0.2, 1.5, (count, PIXELS[0], 1, 1))
    brightness = random.uniform(-1, 1, (count, PIXELS[0], 1, 1))
    return (random.standard_normal((count, *PIXELS)) * contrast + brightness).astype(np.float32)


MODELS: dict[str, tuple[Callable[[Path], None], dict[str, Any]]] = {
    "roberta": (
        save_roberta,
        {
            "description": "An encoder of RoBERTa-base's size.",
            "recipe": {"kind": "text-embedding", "pooling": "mean", "normalize": True, "max_length": 256},
            "batching": {"max_batch": 32},
            "test_inputs": texts()[:6],
        },
    ),
    "resnet": (
        save_resnet,
        {
            "description": "A classifier of ResNet-50's size.",
            "recipe": {"kind": "image-classification", "input": "pixels", "activation": "none"},
            "batching": {"max_batch": 8},
            "test_inputs": [{"image": "noise-0.png"}, {"image": "noise-1.png"}],
        },
    ),
    "xgboost": (
        save_xgboost,
        {
            "description": "100 trees of depth 6 on 30 features.",
            "recipe": {"kind": "trees", "file": "model.json"},
            "batching": {"max_batch": 256},
            "test_inputs": [{"file": "rows.npz"}],
        },
    ),
}
"""A function that saves the source, and the fields of model.yaml."""
