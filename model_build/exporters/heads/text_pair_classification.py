"""text-pair-classification: one score per label and pair of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from model_build.exporters.cross_encoder_settings import read_cross_encoder
from model_build.exporters.heads.base import SourceSettings
from model_build.exporters.heads.text_classification import TextClassification


class TextPairClassification(TextClassification):
    """A sequence classifier of two texts, with sentence-transformers' settings if the source has them."""

    task = "text classification"

    @classmethod
    def read_source(cls, folder: Path, recipe: Any) -> SourceSettings:
        """Return the recipe, completed from the source."""
        settings = read_cross_encoder(folder, recipe)
        return SourceSettings(settings.recipe, settings.folder, lowercase=settings.lowercase)
