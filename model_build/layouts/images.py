"""Repository layouts of an image model.

`input: images`: an ensemble of a preprocessing step and the graph. `input: pixels`: the graph alone, under
the model's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from model_build.data import Array, BuildContext, Case, ServableGraph, rows_of
from model_build.inputs.image_files import read_images, require_images
from model_build.layouts.layout import (
    ENCODER,
    IMAGE,
    PREPARER,
    Layout,
    add_entry,
    add_preparer,
    odd_images,
    random_numbers,
    same_names,
)
from model_build.repository.parts import SchedulingStep
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import ImageRecipe
from tritonstack.files.records.manifests import EnvironmentReport, TensorSpec

if TYPE_CHECKING:
    from model_build.exporters.images import ImageFramework


def image_layout(model: Document[ModelSpec], recipe: ImageRecipe) -> Layout[ImageFramework]:
    """Return the layout for a model's `input`."""
    return PixelsIn(model, recipe) if recipe.input == "pixels" else ImagesIn(model, recipe)


class ImageLayout(Layout["ImageFramework"]):
    """Base class of image layouts."""

    def __init__(self, model: Document[ModelSpec], recipe: ImageRecipe) -> None:
        super().__init__(model)
        self._recipe = recipe
        fetched = ("timm", "torchvision") if recipe.library == "timm" else ()
        self.tools = ("pillow", *fetched)

    def load(self, context: BuildContext) -> ImageFramework:
        """Load the model and its image processor."""
        require_images(self._model)
        # torch takes seconds to import, and a reused artifact does not need it.
        if self._recipe.library == "timm":
            from model_build.exporters.timm_models.framework import TimmFramework  # noqa: PLC0415

            return TimmFramework(context.files(self._recipe), cache_dir=context.cache_dir)
        from model_build.exporters.images import ImageFramework  # noqa: PLC0415

        return ImageFramework(context.files(self._recipe))

    def example(self, framework: ImageFramework) -> Mapping[str, Array]:
        """Return the pixels of the first test image."""
        return framework.pixels(self._images()[:1])

    def graph_cases(self, framework: ImageFramework) -> Iterator[Case]:
        """Return random pixels in several batch sizes, and the test inputs."""
        random, max_batch = random_numbers(), self._spec.batching.max_batch
        for batch in sorted({1, min(3, max_batch), max_batch}):
            pixels = framework.random_pixels(random, batch=batch)
            yield Case(f"random pixels x{batch}", pixels, framework.answer(pixels), typical=False)
        for number, image in enumerate(self._images(), start=1):
            pixels = framework.pixels([image])
            yield Case(f"test input {number}", pixels, framework.answer(pixels))

    def _images(self) -> list[bytes]:
        """Read the files of the test inputs."""
        return read_images(self._model)

    def violations(self) -> Iterator[FileViolation]:
        """Check that test images exist, among other conflicts."""
        yield from super().violations()
        try:
            self._images()
        except InvalidFilesError as error:
            yield from error.violations


class PixelsIn(ImageLayout):
    """The graph alone, which needs no Python."""

    def cases(self, framework: ImageFramework) -> Iterator[Case]:
        """Return the pixels of each test image, and noise."""
        yield from (case for case in self.graph_cases(framework) if case.typical)
        pixels = framework.random_pixels(random_numbers(), batch=3)
        yield from rows_of(Case("random pixels", pixels, framework.answer(pixels), typical=False))


class ImagesIn(ImageLayout):
    """An ensemble: decoding and resizing in Python, then the graph."""

    parts: ClassVar[tuple[str, ...]] = (PREPARER, ENCODER)

    def inputs(self, graph: ServableGraph) -> tuple[TensorSpec, ...]:
        """Return the image input, whatever the graph takes."""
        del graph
        return (IMAGE,)

    def write(
        self, repository: Path, graph: ServableGraph, framework: ImageFramework, context: BuildContext
    ) -> tuple[EnvironmentReport, ...]:
        """Write three folders."""
        environment = add_preparer(
            repository,
            preparation=framework.preparation or {},
            outputs=graph.inputs,
            batching=self._spec.batching,
            cache_dir=context.cache_dir,
        )
        self._add_graph(repository, ENCODER, graph, framework, context)
        steps = [
            SchedulingStep(PREPARER, same_names((IMAGE,)), same_names(graph.inputs)),
            SchedulingStep(ENCODER, same_names(graph.inputs), same_names(graph.outputs)),
        ]
        add_entry(repository, self._spec, inputs=(IMAGE,), outputs=graph.outputs, steps=steps)
        return (environment,)

    def cases(self, framework: ImageFramework) -> Iterator[Case]:
        """Return each test image alone, all in one request, and images of odd sizes."""
        # Pillow imports slowly, and a reused artifact does not need it.
        from model_build.exporters.images import encoded  # noqa: PLC0415

        images = self._images()
        for number, image in enumerate(images, start=1):
            yield _case(f"test input {number}", framework, [image])
        batch = images[: self._spec.batching.max_batch]
        if len(batch) > 1:
            yield _case("test inputs in one request", framework, batch, typical=False)
        for name, pixels in odd_images():
            yield _case(name, framework, [encoded(pixels)], typical=False)


def _case(name: str, framework: ImageFramework, images: Sequence[bytes], *, typical: bool = True) -> Case:
    inputs = {IMAGE.name: np.array([[image] for image in images], dtype=np.object_)}
    return Case(name, inputs, framework.answer(framework.pixels(images)), typical=typical)
