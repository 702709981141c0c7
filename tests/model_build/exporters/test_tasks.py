"""Every Hugging Face task: its answers, its labels, and the models that it rejects."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import PIL.Image
import pytest
import transformers

from model_build.errors import ExportError
from model_build.exporters.images import encoded, preparation_of
from tests.model_build.frameworks import framework_of
from tests.model_build.served.loading import load_served
from tests.model_build.tiny import TEXTS
from tests.model_build.tiny_tasks import LABELS, QUESTIONS, TOKEN_LABELS, save_image_model, save_text_model

KIND = "image-classification"


@pytest.fixture(scope="session")
def image_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_image_model(tmp_path_factory.mktemp("images"))


def noise(*size: int) -> bytes:
    return encoded(np.random.default_rng(5).integers(0, 256, size, dtype=np.uint8))


def request(*files: bytes) -> dict[str, Any]:
    return {"IMAGE": SimpleNamespace(as_numpy=lambda: np.array([[file] for file in files], dtype=np.object_))}


def served(monkeypatch: pytest.MonkeyPatch, folder: Path, preparation: Mapping[str, Any]) -> Any:
    (folder / "1").mkdir()
    (folder / "1" / "preparation.json").write_text(json.dumps(preparation))
    return load_served("image_pixels", folder, monkeypatch)


PROCESSORS = [
    ("ViTImageProcessorPil", {"size": {"height": 30, "width": 40}, "resample": 3}),
    ("ViTImageProcessorPil", {"do_normalize": False, "size": {"height": 32, "width": 32}}),
    ("CLIPImageProcessorPil", {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}}),
    ("CLIPImageProcessorPil", {"do_resize": False, "crop_size": {"height": 65, "width": 99}}),
    ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 28}, "crop_pct": 0.875}),
    ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 384}}),
    ("LevitImageProcessorPil", {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}}),
]


@pytest.mark.parametrize(("name", "options"), PROCESSORS)
def test_the_served_step_prepares_images_as_transformers_does(monkeypatch, tmp_path, name, options):
    processor = getattr(transformers, name)(**options)
    model = served(monkeypatch, tmp_path, preparation_of(processor))
    for size in ((40, 64, 3), (90, 33, 3), (20, 21, 3), (50, 50)):
        file = noise(*size)
        image = PIL.Image.open(io.BytesIO(file)).convert("RGB")
        expected = processor([image], return_tensors="np")["pixel_values"]
        (response,) = model.execute([request(file)])
        assert response.error is None
        assert response.outputs["pixel_values"].dtype == np.float32
        np.testing.assert_allclose(response.outputs["pixel_values"], expected, atol=1e-6)


def test_bad_image_does_not_fail_other_requests(monkeypatch, tmp_path, image_model):
    framework = framework_of(image_model, KIND)
    model = served(monkeypatch, tmp_path, framework.preparation)
    good = noise(40, 50, 3)
    before, bad, cut, after = model.execute(
        [request(good, good), request(good, b"no image"), request(good[:-300]), request(good)]
    )
    assert (before.error, after.error) == (None, None)
    assert before.outputs["pixel_values"].shape == (2, 3, 32, 32)
    np.testing.assert_array_equal(after.outputs["pixel_values"], framework.pixels([good])["pixel_values"])
    for response in (bad, cut):
        assert "BMP, GIF, JPEG" in response.error


def test_image_that_exceeds_memory_after_scaling(monkeypatch, tmp_path):
    plain: dict[str, Any] = {"resample": 2, "scale": None, "mean": None, "deviation": None}
    model = served(monkeypatch, tmp_path, {"geometry": [{"shorter": 256}, {"crop": [224, 224]}], **plain})
    good, long = noise(300, 300, 3), noise(1, 50_000, 3)
    responses = model.execute([request(good), request(long), request(b"no image")])
    assert [response.error is None for response in responses] == [True, False, False]
    assert "(12800000, 256)" in responses[1].error
    assert "BMP, GIF, JPEG" in responses[2].error


def test_images_are_rotated_by_their_exif_orientation(monkeypatch, tmp_path, image_model):
    framework = framework_of(image_model, KIND)
    image = PIL.Image.open(io.BytesIO(noise(40, 50, 3)))
    exif = image.getexif()
    exif[0x0112] = 6  # lies on its side
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif)
    (response,) = served(monkeypatch, tmp_path, framework.preparation).execute([request(file.getvalue())])
    expected = framework.pixels([file.getvalue()])["pixel_values"]
    np.testing.assert_array_equal(response.outputs["pixel_values"], expected)
    assert np.abs(expected - framework.pixels([noise(40, 50, 3)])["pixel_values"]).max() > 0.5


CLIP = {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}}


@pytest.mark.parametrize(
    ("processor", "options", "value"),
    [
        ("MobileViTImageProcessorPil", CLIP, "custom preprocess"),
        ("CLIPImageProcessorPil", {"do_center_crop": False, "size": {"shortest_edge": 32}}, "one size"),
        ("ViTImageProcessorPil", {"size": {"height": 48, "width": 48}}, "[3, 48, 48]"),
    ],
)
def test_processors_that_the_served_step_cannot_replace(image_model, tmp_path, processor, options, value):
    folder = Path(shutil.copytree(image_model, tmp_path / "model"))
    getattr(transformers, processor)(**options).save_pretrained(folder)
    with pytest.raises(ExportError) as caught:
        framework_of(folder, KIND)
    assert value in caught.value.message
    if options is CLIP:  # it does more with images; pixels are the callers'
        assert "input: pixels" in str(caught.value.remedy)
        assert framework_of(folder, KIND, input="pixels").example["pixel_values"].shape[1:] == (3, 32, 32)


BART = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "decoder_start_token_id": 3}
CLASSIFIER = "BertForSequenceClassification"


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Load an architecture by a recipe of a kind; each model is saved once."""
    folders: dict[str, Path] = {}

    def loaded(
        architecture: str, kind: str, *, recipe: Mapping[str, Any] | None = None, **changes: Any
    ) -> Any:
        key = f"{architecture} {sorted(changes.items())}"
        if key not in folders:
            folders[key] = save_text_model(tmp_path_factory.mktemp("model"), architecture, **changes)
        return framework_of(folders[key], kind, **{"max_length": 32, **(recipe or {})})

    return loaded


@pytest.mark.parametrize(
    ("architecture", "positions", "expected"),
    [
        (CLASSIFIER, 60, 60),
        (CLASSIFIER, 512, 256),
        ("RobertaForSequenceClassification", 60, 59),  # its first position follows the padding token's id, 0
    ],
)
def test_the_default_length_fits_the_models_positions(load, architecture, positions, expected):
    recipe, options = {"max_length": None}, {"labels": LABELS, "max_position_embeddings": positions}
    assert load(architecture, "text-classification", recipe=recipe, **options).max_length == expected


def test_padding_has_no_score_and_no_state(load):
    tagger = load("BertForTokenClassification", "token-classification", labels=TOKEN_LABELS)
    tokens = tagger.tokenize(TEXTS, extra=tagger.token_tensors)
    offsets, is_token = tokens.pop("offsets"), tokens["attention_mask"] == 1
    np.testing.assert_allclose(tagger.answer(tokens)["scores"].sum(axis=2), is_token, atol=1e-6)
    # Characters, not bytes; special tokens and padding have no position.
    text = "naïve café, 東京"
    row = TEXTS.index(text)
    assert "".join(text[begin:end] for begin, end in offsets[row]) == text.replace(" ", "")
    assert not offsets[row][~is_token[row]].any()
    assert not offsets[row][0].any()
    states = load("MPNetModel", "feature-extraction").answer(tokens)["last_hidden_state"]
    assert not states[~is_token].any()


def test_token_types_separate_question_and_context(load):
    reader = load("BertForQuestionAnswering", "question-answering")
    tokens = reader.tokenize(QUESTIONS)
    one_type = tokens | {"token_type_ids": tokens["token_type_ids"] * 0}
    answers = [reader.answer(row)["start_logits"] for row in (one_type, tokens)]
    assert np.abs(answers[0] - answers[1]).max() > 0.01


ODDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda logits: 1 / (1 + np.exp(-logits)),
    "none": lambda logits: logits,
    "softmax": lambda logits: np.exp(logits) / np.exp(logits).sum(),
}


@pytest.mark.parametrize(
    ("labels", "problem", "activation", "expected"),
    [
        (LABELS, "multi_label_classification", None, "sigmoid"),
        (LABELS, "regression", None, "none"),
        (LABELS, "single_label_classification", "sigmoid", "sigmoid"),
        (LABELS, None, None, "softmax"),
        ({0: "good"}, None, None, "sigmoid"),
    ],
)
def test_activation_comes_from_the_recipe_or_the_model(load, labels, problem, activation, expected):
    framework, plain = (
        load(
            CLASSIFIER,
            "text-classification",
            recipe={"activation": name},
            labels=labels,
            problem_type=problem,
        )
        for name in (activation, "none")
    )
    tokens = framework.tokenize(TEXTS[:1])
    odds = ODDS[expected](plain.answer(tokens)["scores"][0])
    np.testing.assert_allclose(framework.answer(tokens)["scores"][0], odds, atol=1e-6)


def test_an_encoder_is_found_in_a_model_with_a_decoder(load):
    encoder = load("BartModel", "feature-extraction", **BART).head.encoder
    assert type(encoder).__name__ == "BartEncoder"


@pytest.mark.parametrize(
    ("architecture", "kind", "recipe", "options", "value"),
    [
        ("BertModel", "text-classification", {}, {}, "classifier.bias, classifier.weight"),
        ("BartModel", "token-classification", {}, BART, "no bart model"),
        (CLASSIFIER, "text-classification", {"activation": "softmax"}, {"labels": {0: "good"}}, "softmax"),
    ],
)
def test_a_model_of_another_task(load, architecture, kind, recipe, options, value):
    with pytest.raises(ExportError, match=value):
        load(architecture, kind, recipe=recipe, **options)


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ('"model_type": "bert"', '"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}', "Python code"),
        ('"2": "cross"', '"7": "cross"', "[0, 1, 7]"),
    ],
    ids=["code", "labels"],
)
def test_a_config_that_is_rejected(tmp_path, old, new, value):
    folder = save_text_model(tmp_path, CLASSIFIER, labels=LABELS)
    (folder / "config.json").write_text((folder / "config.json").read_text().replace(old, new))
    (folder / "own.py").write_text("raise SystemExit('this ran')")
    with pytest.raises(ExportError) as caught:
        framework_of(folder, "text-classification")
    assert value in str(caught.value)


def test_a_tokenizer_without_fast_form(load, monkeypatch):
    import transformers

    slow = type("Slow", (), {"is_fast": False, "pad_token_id": 0})
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: slow())
    with pytest.raises(ExportError, match="no fast"):
        load("BertModel", "feature-extraction")
