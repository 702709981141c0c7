"""The halves of CLIP: a text model and an image model whose vectors can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers

from model_build.sources.settings_files import read_settings_file

CLIP, CLIP_TEXT = "clip", "clip_text_model"
USUAL_POSITIONS = 77


def text_tower(model: Any) -> Any:
    """Return the text model of CLIP with its projection."""
    tower: Any = transformers.CLIPTextModelWithProjection(model.config.text_config)
    tower.text_model, tower.text_projection = model.text_model, model.text_projection
    return tower


def image_tower(model: Any) -> Any:
    """Return the image model of CLIP with its projection."""
    tower: Any = transformers.CLIPVisionModelWithProjection(model.config.vision_config)
    tower.vision_model, tower.visual_projection = model.vision_model, model.visual_projection
    return tower


def clip_positions(folder: Path) -> int | None:
    """Return the most tokens of a text if the source is a CLIP model; None for any other."""
    config = read_settings_file(folder, "config.json")
    if config.get("model_type") != CLIP:
        return None
    return int((config.get("text_config") or {}).get("max_position_embeddings", USUAL_POSITIONS))
