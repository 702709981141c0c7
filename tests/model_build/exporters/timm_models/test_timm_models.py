"""timm models answer and prepare images as timm does; wrong sources are rejected."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from safetensors.numpy import load_file, save_file

from model_build.errors import ExportError
from model_build.exporters.timm_models.framework import timm_preparation
from model_build.exporters.timm_models.loading import import_timm
from model_build.graphs.running import GraphSession
from tests.model_build import frameworks
from tests.model_build.exporters.test_tasks import noise, request, served
from tests.model_build.frameworks import TRUSTED, change_json
from tests.model_build.tiny_timm import save_timm_model, shared_cache

SETTINGS = {
    "input_size": (3, 64, 48),
    "crop_pct": 0.875,
    "crop_mode": "squash",
    "interpolation": "bicubic",
    "mean": (0.5, 0.4, 0.3),
    "std": (0.2, 0.3, 0.4),
}


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_timm_model(tmp_path_factory.mktemp("resnet"))


def framework_of(folder: Path, kind: str = "image-classification", **options: Any) -> Any:
    return frameworks.framework_of(folder, kind, library="timm", **options)


def changed(source: Path, folder: Path, **changes: Any) -> Path:
    """Copy a source with other fields in config.json; None omits a field."""
    shutil.copytree(source, folder)
    return change_json(folder / "config.json", **changes)


def own_answer(folder: Path, file: bytes, **options: Any) -> np.ndarray:
    """Return what timm's documentation does with a local folder."""
    timm = import_timm(shared_cache())
    model = timm.create_model(f"local-dir:{folder}", pretrained=True, **options).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    image = PIL.Image.open(io.BytesIO(file)).convert("RGB")
    answer: np.ndarray = model(transform(image).unsqueeze(0)).detach().numpy()
    return answer


def test_scores_are_those_of_timm(resnet, tmp_path):
    framework = framework_of(resnet)
    pixels = framework.pixels([noise(90, 70, 3)])
    logits = own_answer(resnet, noise(90, 70, 3))
    expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    other = framework.answer(framework.pixels([noise(64, 64)]))["scores"]
    assert np.abs(other - expected).max() > 0.001, "the model tells images apart"
    np.testing.assert_allclose(framework.answer(pixels)["scores"], expected, atol=1e-6)
    graph = framework.export(tmp_path / "1")
    assert [(tensor.name, tensor.shape) for tensor in graph.inputs] == [("pixel_values", (3, 64, 64))]
    assert [tensor.labels for tensor in graph.outputs] == [("label 0", "label 1", "label 2")]
    random = framework.random_pixels(np.random.default_rng(1), batch=3)
    answer = GraphSession(graph.file).answer(random)["scores"]
    np.testing.assert_allclose(answer, framework.answer(random)["scores"], atol=1e-5)


def test_embeddings_are_those_of_timm_without_a_classifier(resnet):
    framework = framework_of(resnet, "image-embedding", normalize=False)
    expected = own_answer(resnet, noise(90, 70, 3), num_classes=0)
    np.testing.assert_allclose(
        framework.answer(framework.pixels([noise(90, 70, 3)]))["embedding"], expected, atol=1e-5
    )
    assert framework.unused_weights == ("fc.bias", "fc.weight")
    normalized = framework_of(resnet, "image-embedding")
    vector = normalized.answer(normalized.pixels([noise(90, 70, 3)]))["embedding"]
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


TRANSFORMS = [
    {"input_size": (3, 64, 64), "crop_mode": "center"},
    {"input_size": (3, 61, 61), "crop_mode": "center", "crop_pct": 0.95, "interpolation": "bilinear"},
    {"input_size": (3, 64, 64), "crop_mode": "center", "crop_pct": 1.0},
    {},
    {"crop_pct": 1.0, "interpolation": "lanczos"},
]


@pytest.mark.parametrize("changes", TRANSFORMS)
def test_the_served_step_prepares_images_as_timm_does(monkeypatch, tmp_path, changes):
    settings = {**SETTINGS, **changes}
    transform = import_timm(shared_cache()).data.create_transform(**settings, is_training=False)
    model = served(monkeypatch, tmp_path, timm_preparation(settings))
    # Margins of every remainder: torchvision rounds halves to even.
    for size in ((64, 64, 3), (70, 65, 3), (64, 67, 3), (99, 64, 3), (33, 90, 3), (300, 207, 3), (50, 50)):
        file = noise(*size)
        expected = transform(PIL.Image.open(io.BytesIO(file)).convert("RGB")).numpy()[None]
        (response,) = model.execute([request(file)])
        assert response.error is None
        np.testing.assert_allclose(response.outputs["pixel_values"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crop_mode": "border"}, r"crop_mode 'border' to 64x48 pixels.*not support"),
        ({"crop_mode": "center"}, r"crop_mode 'center' to 64x48 pixels"),
        ({"crop_pct": 1.2}, r"crop_pct 1\.2, which adds a border"),
        ({"interpolation": "random"}, r"interpolation 'random'"),
    ],
)
def test_transforms_that_the_served_step_lacks(changes, message):
    with pytest.raises(ExportError, match=message) as caught:
        timm_preparation({**SETTINGS, **changes})
    assert "input: pixels" in (caught.value.remedy or "")


def test_labels_of_imagenet(tmp_path):
    folder = save_timm_model(tmp_path / "source", classes=1000, tag="r160_in1k")
    change_json(folder / "config.json", label_names=None)
    assert framework_of(folder).head.labels["scores"][:2] == (
        "tench, Tinca tinca",
        "goldfish, Carassius auratus",
    )
    config = json.loads((folder / "config.json").read_text())["pretrained_cfg"]
    change_json(folder / "config.json", pretrained_cfg={**config, "tag": "of_my_own"})
    assert framework_of(folder).head.labels == {}


GREY = {"input_size": [1, 64, 64]}
# Without `num_classes` in pretrained_cfg and at the top level; timm takes 1000 for a number that is missing.
UNNUMBERED = {"num_classes": None, "label_names": None}
WRONG: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "no architecture": ("class", {}, {"architecture": None}, "`architecture`"),
    "an unknown architecture": ("class", {}, {"architecture": "resnet-9000"}, "resnet-9000"),
    "another architecture": ("class", {}, {"architecture": "test_vit"}, "timm cannot load"),
    "too few labels": ("class", {}, {"label_names": ["one"]}, "3 label_names, got 1"),
    "labels of WordNet": ("class", {}, {"label_names": {"n01440764": "tench"}}, "'n01440764'.* 0 to 0"),
    "labels from 1": ("class", {}, {"label_names": {"1": "a", "2": "b", "3": "c"}}, "'3'.* 0 to 2"),
    "lists for labels": ("class", {}, {"label_names": [["cat"], ["dog"], ["bird"]]}, "label_names"),
    "one channel": ("class", GREY, {"model_args": {"in_chans": 1, "num_classes": 3}}, "channels"),
    "a mean": ("class", {"mean": "x"}, {}, "cannot prepare images"),
    "more classes": ("class", {}, {"model_args": {"num_classes": 5}}, "3, and model_args has num_classes 5"),
    "no classes": ("embed", {}, {"model_args": {"num_classes": 0}}, "num_classes is 3, and model_args has"),
    "1000 classes": ("class", {"num_classes": 1000}, {"num_classes": None}, "1000, and model_args"),
    "no number": ("class", {"num_classes": None}, UNNUMBERED, r"missing for: fc\.bias, fc\.weight"),
    "no number, no classes": (
        *("embed", {"num_classes": None}, {"num_classes": None, "model_args": {"num_classes": 0}}),
        "num_classes is 1000, and the model has 0",
    ),
    "a list for arguments": ("class", {}, {"model_args": ["num_classes"]}, "model_args to be a mapping"),
    # Arguments that change how weights are loaded.
    **{
        name: ("class", {}, {"model_args": {"num_classes": 3, name: value}}, f"model_args has {name}")
        for name, value in {
            **{"pretrained_strict": False, "features_only": True, "kwargs_filter": ["num_classes"]},
        }.items()
    },
}


@pytest.mark.parametrize(("kind", "settings", "changes", "message"), WRONG.values(), ids=WRONG)
def test_wrong_sources(resnet, tmp_path, kind, settings, changes, message):
    own = json.loads((resnet / "config.json").read_text())["pretrained_cfg"] | settings
    own = {key: value for key, value in own.items() if value is not None}
    folder = changed(resnet, tmp_path / "source", **{"pretrained_cfg": own, **changes})
    with pytest.raises(ExportError, match=message) as caught:
        framework_of(folder, "image-embedding" if kind == "embed" else "image-classification")
    assert caught.value.remedy


def test_weights_in_config_json_are_not_read(resnet, tmp_path):
    settings = json.loads((resnet / "config.json").read_text())["pretrained_cfg"]
    other = {**settings, "state_dict": {"fc.bias": [0, 0, 0]}, "custom_load": True, "url": "https://e/x.bin"}
    pixels = framework_of(resnet).pixels([noise(40, 40, 3)])
    answer = framework_of(changed(resnet, tmp_path / "source", pretrained_cfg=other)).answer(pixels)
    np.testing.assert_array_equal(answer["scores"], framework_of(resnet).answer(pixels)["scores"])


def test_tensors_that_timm_does_not_use(tmp_path):
    folder = save_timm_model(tmp_path / "source", "dla46x_c")  # timm loads it without `strict`
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, "other.weight": weights["fc.bias"]}, folder / "model.safetensors")
    with pytest.raises(ExportError, match=r": other\.weight"):
        framework_of(folder)


def test_numbered_label_names(resnet, tmp_path):
    numbered = changed(resnet, tmp_path / "a", label_names={"2": "c", "0": "a", "1": "b"})
    assert framework_of(numbered).head.labels == {"scores": ("a", "b", "c")}


def test_wrong_files(resnet, tmp_path):
    broken = changed(resnet, tmp_path / "json")
    (broken / "config.json").write_text("{")
    with pytest.raises(ExportError, match=r"config\.json cannot"):
        framework_of(broken)
    pickled = changed(resnet, tmp_path / "pickle")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ExportError, match=r"no model\.safetensors"):
        framework_of(pickled)
    with pytest.raises(ExportError, match=r"no config\.json"):
        framework_of(tmp_path)


def test_a_pickle_is_read_only_if_trusted(resnet, tmp_path):
    import torch

    folder = changed(resnet, tmp_path / "pickle")
    weights = load_file(folder / "model.safetensors")
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    torch.save(tensors, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    trusted = framework_of(folder, trust=TRUSTED)
    pixels = trusted.pixels([noise(40, 40, 3)])
    np.testing.assert_array_equal(
        trusted.answer(pixels)["scores"], framework_of(resnet).answer(pixels)["scores"]
    )


def test_a_model_without_classifier(tmp_path):
    folder = save_timm_model(tmp_path / "source", classes=0)
    with pytest.raises(ExportError, match=r"num_classes: 0") as caught:
        framework_of(folder)
    assert "image-embedding" in (caught.value.remedy or "")
    framework = framework_of(folder, "image-embedding")
    assert framework.unused_weights == ()
    assert framework.answer(framework.pixels([noise(40, 40, 3)]))["embedding"].shape == (1, 96)


def test_the_number_of_classes_at_the_top_level_counts(resnet, tmp_path):
    """As in timm: older versions left the number of the original model in pretrained_cfg."""
    own = json.loads((resnet / "config.json").read_text())["pretrained_cfg"]
    folder = changed(resnet, tmp_path / "source", pretrained_cfg={**own, "num_classes": 1000})
    assert framework_of(folder).head.config.num_labels == 3
