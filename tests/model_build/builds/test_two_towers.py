"""CLIP: a text model and an image model from one source, whose vectors can be compared."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.build import BuildFolders, build_model
from model_build.errors import ModelBuildError
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny import TEXTS
from tests.model_build.tiny_tasks import save_clip_model, save_image_model, save_pictures
from tritonstack.base.errors import InvalidFilesError
from tritonstack.files.records.examples import Examples, array_of

TEXT, IMAGE = {"kind": "text-embedding"}, {"kind": "image-embedding"}
IMAGES = ("a.png", "b.png")


def answers_of(
    folder: Path, folders: BuildFolders, recipe: dict[str, Any], tests: list[Any]
) -> tuple[list[bytes], np.ndarray]:
    """Build a model; return its test inputs, and the vectors that verified endpoints must give."""
    save_pictures(folder, *IMAGES)
    artifact = build_model(model=write_supplied(folder, recipe, test_inputs=tests), folders=folders)
    manifest = artifact.manifest
    assert {report.stage for report in manifest.parity} == {"graph", "served"}
    assert [(output.name, output.shape) for output in manifest.outputs] == [("embedding", (16,))]
    examples = Examples.model_validate_json((artifact.artifact_dir / "examples.json").read_text())
    requests = examples.requests[: len(tests)]
    sent = [bytes(array_of(request.inputs[0])[0, 0]) for request in requests]
    return sent, np.concatenate([array_of(request.outputs[0]) for request in requests])


@pytest.mark.soak
def test_vectors_of_texts_and_images_are_those_of_clip(tmp_path, folders):
    import PIL.Image
    import torch
    import transformers

    weights = save_clip_model(tmp_path / "weights")
    texts, text_vectors = answers_of(tmp_path, folders, TEXT, list(TEXTS[:2]))
    images, image_vectors = answers_of(tmp_path, folders, IMAGE, [{"image": name} for name in IMAGES])
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


@pytest.mark.parametrize(
    ("save", "recipe", "message"),
    [
        (save_image_model, IMAGE, "image-embedding .* a vit model"),
        (save_clip_model, {**TEXT, "pooling": "mean"}, r"recipe\.pooling: "),
        (save_clip_model, {**TEXT, "max_length": 64}, "texts of 64 tokens"),
    ],
)
def test_other_models_and_options_that_clip_lacks_are_rejected(tmp_path, folders, save, recipe, message):
    save(tmp_path / "weights")
    with pytest.raises((InvalidFilesError, ModelBuildError), match=message):
        answers_of(tmp_path, folders, recipe, [{"image": "a.png"}] if recipe is IMAGE else ["a"])
    assert not list(folders.artifacts.rglob("model.tar.gz"))
