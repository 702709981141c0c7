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
from model_build.exporters.entry_points import make_module
from tests.model_build.frameworks import framework_of
from tests.model_build.tiny import TEXTS
from tests.model_build.tiny_language_models import write_encoder_decoder, write_language_model
from tests.model_build.tiny_tasks import LABELS, save_clip_model, save_image_model, save_text_model
from tests.model_build.tiny_timm import save_timm_model

MOST = 4
"""About so many tensors of each model are left out, one at a time."""
Save = Callable[[Path], object]
TIMM = {"library": "timm"}


def text_model(architecture: str, **options: Any) -> Save:
    return lambda folder: save_text_model(folder, architecture, **options)


CLASSIFIER = text_model("BertForSequenceClassification", labels=LABELS)
PAIRS = text_model("BertForSequenceClassification", labels={0: "score"})
SOURCES: dict[str, tuple[Save, str, dict[str, Any]]] = {
    "text-embedding": (text_model("BertModel"), "text-embedding", {"max_length": 24}),
    "feature-extraction": (text_model("T5EncoderModel"), "feature-extraction", {"max_length": 24}),
    "text-classification": (CLASSIFIER, "text-classification", {"max_length": 24}),
    "text-pair-classification": (PAIRS, "text-pair-classification", {"max_length": 24}),
    "texts of CLIP": (save_clip_model, "text-embedding", {}),
    "images of CLIP": (save_clip_model, "image-embedding", {}),
    "image-classification": (save_image_model, "image-classification", {}),
    "text-generation": (write_language_model, "text-generation", {}),
    "text-to-text": (lambda folder: write_encoder_decoder(folder, kind="bart"), "text-to-text", {}),
    "timm": (save_timm_model, "image-classification", TIMM),
    "timm without its classifier": (save_timm_model, "image-embedding", TIMM),
    # timm loads this architecture without `strict`.
    "timm, not strict": (lambda folder: save_timm_model(folder, "dla46x_c"), "image-classification", TIMM),
}


def answers_of(folder: Path, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    framework = framework_of(folder, kind, **fields)
    if kind in ("text-generation", "text-to-text"):
        return {"tokens": np.array(framework.complete(framework.prompt("hello world"), 5))}
    if kind.startswith("image"):
        inputs = framework.random_pixels(np.random.default_rng(0), batch=2)
    else:
        inputs = framework.tokenize([(text, text) for text in TEXTS] if "pair" in kind else TEXTS)
    answers: dict[str, Any] = framework.answer(inputs)
    return answers


@pytest.mark.parametrize(("save", "kind", "fields"), SOURCES.values(), ids=SOURCES)
def test_each_missing_tensor_is_an_error(tmp_path, save, kind, fields):
    source = tmp_path / "source"
    save(source)
    right, weights = answers_of(source, kind, fields), load_file(source / "model.safetensors")
    folder = shutil.copytree(source, tmp_path / "incomplete")
    missing = {}
    for name in some(weights):
        rest = {key: array for key, array in weights.items() if key != name}
        save_file(rest, folder / "model.safetensors", metadata={"format": "pt"})
        try:
            answers = answers_of(folder, kind, fields)
        except ExportError as error:
            missing[name] = str(error)
            continue
        assert "pooler" in name or name == "final_logits_bias", "nothing else may be missing"
        for output, array in answers.items():
            np.testing.assert_array_equal(array, right[output])
    for name, message in missing.items():
        tensor = name.rpartition(".")[2]  # transformers renames the tensors of some architectures
        assert re.search(rf"([Mm]issing (for|key)).*\b{tensor}\b", message)
    assert len(missing) >= MOST - 1


def some(weights: Collection[str]) -> list[str]:
    """Return tensors of all parts of a model; without counters of training, which PyTorch does not need."""
    names = sorted(name for name in weights if not name.endswith("num_batches_tracked"))
    return [*names[:: max(1, len(names) // MOST)], *(name for name in names if "pooler" in name)]


def linear(folder: Path) -> torch.nn.Module:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    module.load_state_dict(torch.load(folder / "weights.pt"), strict=False)
    return module


def test_a_module_whose_function_loads_too_little(tmp_path):
    weights = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)).state_dict()
    torch.save(weights, tmp_path / "weights.pt")
    assert torch.equal(make_module(linear, tmp_path).state_dict()["1.bias"], weights["1.bias"])
    torch.save({name: tensor for name, tensor in weights.items() if name < "1"}, tmp_path / "weights.pt")
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
