"""Image files of a model's test inputs."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from model_build.errors import ModelInputError
from model_build.library_errors import brief
from tritonstack.base.error_kinds import MissingReferenceError
from tritonstack.base.errors import FileViolation, reject
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
"""Those that the served step reads, too."""


def read_images(model: Document[ModelSpec]) -> list[bytes]:
    """Return the files of the test inputs; raise InvalidFilesError for missing ones."""
    reject(
        [
            model.violation(
                MissingReferenceError,
                ("test_inputs", index, "image"),
                f"file not found next to model.yaml: {file.relative_to(model.file.parent)}",
                "add it or correct its name",
            )
            for index, file in enumerate(_files(model))
            if not file.is_file()
        ]
    )
    return [file.read_bytes() for file in _files(model)]


def require_images(model: Document[ModelSpec]) -> None:
    """Raise InvalidFilesError for test inputs that are no images. Imports Pillow, which takes time."""
    reject(_unreadable(model))


def _unreadable(model: Document[ModelSpec]) -> Iterator[FileViolation]:
    import PIL.Image  # noqa: PLC0415 - imports slowly, and a reused artifact does not need it

    for index, content in enumerate(read_images(model)):
        try:
            with PIL.Image.open(BytesIO(content), formats=FORMATS) as image:
                image.load()
        except Exception as error:
            # Pillow's message about an unknown format names an object in memory.
            unknown = isinstance(error, PIL.UnidentifiedImageError)
            reason = f"none of {', '.join(FORMATS)}" if unknown else brief(error)
            yield model.violation(
                ModelInputError,
                ("test_inputs", index, "image"),
                f"{model.record.test_inputs[index].image} cannot be read as an image: {reason}",
                "replace the file",
            )


def _files(model: Document[ModelSpec]) -> list[Path]:
    return [model.file.parent / str(test_input.image) for test_input in model.record.test_inputs]
