"""CLIP: a text model and an image model from one source, whose vectors can be compared."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.build import BuildFolders, build_model
from model_build.errors import ModelBuildError
from tests.model_build.tiny import TEXTS, write_model_file
from tests.model_build.tiny_tasks import save_clip_model, save_image_model
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.records.example_tensors import array_of
from tritonstack.records.examples import Examples
from tritonstack.spec.models.model import ModelSpec

IMAGES = ("a.png", "b.png")


def folder_of(folder: Path) -> Path:
    from model_build.exporters.image_preparation import encoded  # which takes seconds

    random = np.random.default_rng(2)
    for name in IMAGES:
        (folder / name).write_bytes(encoded(random.integers(0, 256, (50, 40, 3), dtype=np.uint8)))
    return folder


def answers_of(
    folder: Path, folders: BuildFolders, recipe: str, tests: tuple[str, ...]
) -> tuple[list[bytes], np.ndarray]:
    """Build a model; return its test inputs, and the vectors that verified endpoints must give."""
    file = write_model_file(folder, recipe=recipe, source=folder / "weights", tests=tests)
    artifact = build_model(model=load_document(file, ModelSpec), folders=folders)
    manifest = artifact.manifest
    assert {report.stage for report in manifest.parity} == {"graph", "served"}
    assert [(output.name, output.shape) for output in manifest.outputs] == [("embedding", (16,))]
    examples = Examples.model_validate_json((artifact.artifact_dir / "examples.json").read_text())
    requests = examples.requests[: len(tests)]
    given = [bytes(array_of(request.inputs[0])[0, 0]) for request in requests]
    return given, np.concatenate([array_of(request.outputs[0]) for request in requests])


@pytest.mark.soak
def test_vectors_of_texts_and_images_are_those_of_clip(tmp_path, folders):
    import PIL.Image
    import torch
    import transformers

    folder_of(tmp_path)
    weights = save_clip_model(tmp_path / "weights")
    texts, text_vectors = answers_of(tmp_path, folders, "kind: text-embedding", TEXTS[:2])
    images, image_vectors = answers_of(
        tmp_path, folders, "kind: image-embedding", tuple(f"image: {name}" for name in IMAGES)
    )
    model: Any = transformers.CLIPModel.from_pretrained(weights).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(weights)(
        [text.decode() for text in texts], padding=True, return_tensors="pt"
    )
    processor = transformers.AutoImageProcessor.from_pretrained(weights, backend="pil")
    opened = [PIL.Image.open(io.BytesIO(image)) for image in images]
    with torch.inference_mode():
        answer = model(**tokens, **processor(opened, return_tensors="pt"))
    assert len(texts) == len(images) == 2
    np.testing.assert_allclose(text_vectors, answer.text_embeds.numpy(), atol=2e-5)
    np.testing.assert_allclose(image_vectors, answer.image_embeds.numpy(), atol=2e-5)
    similarity = answer.logits_per_text.numpy() / model.logit_scale.exp().item()
    np.testing.assert_allclose(text_vectors @ image_vectors.T, similarity, atol=5e-5)


def test_another_image_model_is_rejected(tmp_path, folders):
    folder_of(tmp_path)
    save_image_model(tmp_path / "weights")
    with pytest.raises(ModelBuildError, match=r"image-embedding needs a CLIP model; .* a vit model"):
        answers_of(tmp_path, folders, "kind: image-embedding", ("image: a.png",))
    assert not list(folders.artifacts.rglob("model.tar.gz"))


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("kind: text-embedding, pooling: mean", r"recipe\.pooling: a CLIP model has its own pooling"),
        ("kind: text-embedding, max_length: 64", "the model cannot take texts of 64 tokens"),
    ],
)
def test_options_that_clip_lacks_are_rejected(tmp_path, folders, recipe, message):
    save_clip_model(tmp_path / "weights")
    with pytest.raises((InvalidFilesError, ModelBuildError), match=message):
        answers_of(tmp_path, folders, recipe, TEXTS[:1])
