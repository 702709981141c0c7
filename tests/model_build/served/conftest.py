"""The framework whose tokenizer and answers the served text models must have."""

import pytest

from model_build.data import FrameworkFiles
from model_build.exporters.texts import TextFramework
from model_build.sources import FetchedSource
from tritonstack.files.model.recipes import TextEmbeddingRecipe


@pytest.fixture(scope="session")
def framework(tiny_source: FetchedSource, tiny_recipe: TextEmbeddingRecipe) -> TextFramework:
    return TextFramework(FrameworkFiles(tiny_source.folder, tiny_recipe))
