"""Load tiny models by their recipes, and change the files of their sources."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from model_build.data import FrameworkFiles
from tests.model_build.tiny_timm import shared_cache
from tritonstack.files.model.fields import UNTRUSTED, Trust
from tritonstack.files.model.recipes import ImageRecipe, Recipe, TextGenerationRecipe, TextToTextRecipe

TRUSTED = Trust(pickle="made by this very test")


def framework_of(
    folder: Path,
    kind: str,
    *,
    trust: Trust = UNTRUSTED,
    allow_unused: Mapping[str, str] = MappingProxyType({}),
    **fields: object,
) -> Any:
    """Load the model of a folder as a build with a recipe of this kind and these fields does."""
    recipe: Any = TypeAdapter(Recipe).validate_python({"kind": kind, **fields})
    files = FrameworkFiles(folder, recipe, trust, allow_unused)
    match recipe:
        case TextGenerationRecipe():
            from model_build.exporters.generating.causal import CausalFramework

            return CausalFramework(files)
        case TextToTextRecipe():
            from model_build.exporters.generating.encoder_decoder import EncoderDecoderFramework

            return EncoderDecoderFramework(files)
        case ImageRecipe(library="timm"):
            from model_build.exporters.timm_models.framework import TimmFramework

            return TimmFramework(files, cache_dir=shared_cache())
        case ImageRecipe():
            from model_build.exporters.images import ImageFramework

            return ImageFramework(files)
        case _:
            from model_build.exporters.texts import TextFramework

            return TextFramework(files)


def change_json(file: Path, **changes: Any) -> Path:
    """Change keys of a JSON file, which need not exist; None omits a key. Return its folder."""
    content = json.loads(file.read_text()) if file.is_file() else {}
    content = {key: value for key, value in {**content, **changes}.items() if value is not None}
    file.write_text(json.dumps(content))
    return file.parent
