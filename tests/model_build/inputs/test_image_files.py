"""Images of test inputs are read before the model answers; each wrong one is named with its line."""

import io
import re
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from model_build.inputs.image_files import read_images, require_images
from tests.model_build.tiny import write_model_file
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Document, load_document
from tritonstack.files.model.model import ModelSpec


def picture(kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(1).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    PIL.Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def model_with(folder: Path, **files: bytes) -> Document[ModelSpec]:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    tests = [f"image: {name}" for name in files]
    source = folder / "weights"
    file = write_model_file(folder, recipe="kind: image-classification", source=source, tests=tests)
    return load_document(file, ModelSpec)


def test_images_that_the_served_step_reads(tmp_path):
    model = model_with(tmp_path, a=picture(), b=picture("JPEG"), c=picture("WEBP"))
    require_images(model)
    assert read_images(model)[0] == picture()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no image", "none of BMP, GIF, JPEG, PNG, TIFF, WEBP"),
        (b"", "none of BMP"),
        (picture("PPM"), "none of BMP"),
        (picture()[:-300], "truncated|broken"),
        (None, ": bad"),
    ],
    ids=["text", "empty", "ppm", "cut", "missing"],
)
def test_an_unreadable_image_is_named(tmp_path, content, reason):
    model = model_with(tmp_path, good=picture(), bad=content or b"")
    if content is None:
        (tmp_path / "bad").unlink()
    with pytest.raises(InvalidFilesError) as caught:
        require_images(model)
    (violation,) = caught.value.violations
    assert (violation.line, violation.field) == (8, "test_inputs.1.image")
    assert re.search(reason, violation.message)
    assert "object at" not in violation.message
