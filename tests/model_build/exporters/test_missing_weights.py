"""No exporter accepts a source that lacks a tensor which the answers depend on: it would be random."""

import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from model_build.errors import ExportError
from model_build.exporters.generating.causal import CausalFramework
from model_build.exporters.generating.encoder_decoder import EncoderDecoderFramework
from model_build.exporters.image_framework import ImageFramework
from model_build.exporters.made_modules import make_module
from model_build.exporters.text_framework import TextFramework
from model_build.sources import FetchedSource
from tests.model_build.tiny import TEXTS
from tests.model_build.tiny_language_models import write_encoder_decoder, write_language_model
from tests.model_build.tiny_tasks import LABELS, save_clip_model, save_image_model, save_text_model
from tests.model_build.tiny_timm import save_timm_model, shared_cache
from tritonstack.spec.models.model_fields import UNTRUSTED
from tritonstack.spec.models.recipes import (
    FeatureExtractionRecipe,
    ImageClassificationRecipe,
    ImageEmbeddingRecipe,
    TextClassificationRecipe,
    TextEmbeddingRecipe,
    TextGenerationRecipe,
    TextPairClassificationRecipe,
    TextToTextRecipe,
)

Answers = dict[str, Any]
MOST = 8
"""About so many tensors of each model are left out, one at a time."""


def texts(recipe: Any) -> Callable[[Path], Answers]:
    def answers(folder: Path) -> Answers:
        framework = TextFramework(source=FetchedSource(folder, "", ""), recipe=recipe)
        samples = [(text, text) for text in TEXTS] if recipe.takes == "pairs" else TEXTS
        return framework.answer(framework.tokenize(samples))

    return answers


def images(recipe: Any) -> Callable[[Path], Answers]:
    def answers(folder: Path) -> Answers:
        framework = ImageFramework(source=FetchedSource(folder, "", ""), recipe=recipe)
        return framework.answer(framework.random_pixels(np.random.default_rng(0), batch=2))

    return answers


def timm_images(kind: str) -> Callable[[Path], Answers]:
    classes: dict[str, Any] = {
        "image-classification": ImageClassificationRecipe,
        "image-embedding": ImageEmbeddingRecipe,
    }

    def answers(folder: Path) -> Answers:
        from model_build.exporters.timm_models.framework import TimmFramework

        framework = TimmFramework(
            source=FetchedSource(folder, "", ""),
            recipe=classes[kind].model_validate({"kind": kind, "library": "timm"}),
            trust=UNTRUSTED,
            allow_unused={},
            cache_dir=shared_cache(),
        )
        return framework.answer(framework.random_pixels(np.random.default_rng(0), batch=2))

    return answers


def completions(framework_class: Any, recipe: Any) -> Callable[[Path], Answers]:
    def answers(folder: Path) -> Answers:
        framework = framework_class(
            source=FetchedSource(folder, "", ""), recipe=recipe, trust=UNTRUSTED, allow_unused={}
        )
        return {"tokens": np.array(framework.complete(framework.prompt("hello world"), 5))}

    return answers


SOURCES: dict[str, tuple[Callable[[Path], object], Callable[[Path], Answers]]] = {
    "text-embedding": (
        lambda folder: save_text_model(folder, "BertModel"),
        texts(TextEmbeddingRecipe(kind="text-embedding", max_length=24)),
    ),
    "feature-extraction": (
        lambda folder: save_text_model(folder, "T5EncoderModel"),
        texts(FeatureExtractionRecipe(kind="feature-extraction", max_length=24)),
    ),
    "text-classification": (
        lambda folder: save_text_model(folder, "BertForSequenceClassification", labels=LABELS),
        texts(TextClassificationRecipe(kind="text-classification", max_length=24)),
    ),
    "text-pair-classification": (
        lambda folder: save_text_model(folder, "BertForSequenceClassification", labels={0: "score"}),
        texts(TextPairClassificationRecipe(kind="text-pair-classification", max_length=24)),
    ),
    "texts of CLIP": (save_clip_model, texts(TextEmbeddingRecipe(kind="text-embedding"))),
    "images of CLIP": (save_clip_model, images(ImageEmbeddingRecipe(kind="image-embedding"))),
    "image-classification": (
        save_image_model,
        images(ImageClassificationRecipe(kind="image-classification")),
    ),
    "text-generation": (
        write_language_model,
        completions(CausalFramework, TextGenerationRecipe(kind="text-generation")),
    ),
    "text-to-text": (
        lambda folder: write_encoder_decoder(folder, kind="bart"),
        completions(EncoderDecoderFramework, TextToTextRecipe(kind="text-to-text")),
    ),
    "timm": (save_timm_model, timm_images("image-classification")),
    "timm without its classifier": (save_timm_model, timm_images("image-embedding")),
    # timm loads this architecture without `strict`.
    "timm, not strict": (
        lambda folder: save_timm_model(folder, "dla46x_c"),
        timm_images("image-classification"),
    ),
}


@pytest.mark.parametrize(("save", "answers"), SOURCES.values(), ids=SOURCES)
def test_each_missing_tensor_is_an_error(tmp_path, save, answers):
    source = tmp_path / "source"
    save(source)
    right, weights = answers(source), load_file(source / "model.safetensors")
    folder = tmp_path / "incomplete"
    shutil.copytree(source, folder)
    needed = 0
    for name in some(weights):
        rest = {key: array for key, array in weights.items() if key != name}
        save_file(rest, folder / "model.safetensors", metadata={"format": "pt"})
        message = rejection(answers, folder)
        if message is not None:
            # transformers renames the tensors of some architectures.
            tensor = name.rpartition(".")[2]
            assert re.search(rf"([Mm]issing (for|key)).*\b{tensor}\b", message)
            needed += 1
            continue
        assert "pooler" in name or name == "final_logits_bias", "nothing else may be missing"
        for output, array in answers(folder).items():
            np.testing.assert_array_equal(array, right[output])
    assert needed >= MOST - 1


def some(weights: Collection[str]) -> list[str]:
    """Return tensors of all parts of a model; without counters of training, which PyTorch does not need."""
    names = sorted(name for name in weights if not name.endswith("num_batches_tracked"))
    return [*names[:: max(1, len(names) // MOST)], *(name for name in names if "pooler" in name)]


def rejection(answers: Callable[[Path], Answers], folder: Path) -> str | None:
    try:
        answers(folder)
    except ExportError as error:
        return str(error)
    return None


def linear(folder: Path) -> torch.nn.Module:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    module.load_state_dict(torch.load(folder / "weights.pt"), strict=False)
    return module


def save_layers(folder: Path, *names: str) -> None:
    weights = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)).state_dict()
    torch.save({name: tensor for name, tensor in weights.items() if name in names}, folder / "weights.pt")


LAYERS = ("0.weight", "0.bias", "1.weight", "1.bias")


def test_a_module_whose_function_loads_too_little(tmp_path):
    save_layers(tmp_path, *LAYERS)
    module = make_module(linear, tmp_path)
    assert torch.equal(module.state_dict()["1.bias"], torch.load(tmp_path / "weights.pt")["1.bias"])
    save_layers(tmp_path, *LAYERS[:2])
    with pytest.raises(ExportError, match=r"random weights: 1\.\* \(2\)"):
        make_module(linear, tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_tensors_of_any_type_are_compared(tmp_path, dtype):
    def made(_: Path) -> torch.nn.Module:
        module = torch.nn.Module()
        module.register_buffer("scalar", (torch.rand(()) * 1000).to(dtype))
        module.register_buffer("values", (torch.rand(64) > 0.5).to(dtype))
        return module

    with pytest.raises(ExportError, match="random weights"):
        make_module(made, tmp_path)
