"""text_model.py with small batches of another size, in Triton's Python backend.

`recipe.batch_tokens` of model.yaml is the parameter `batch_tokens` of the configuration. Without it,
artifacts have text_model.py alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import text_model
from text_model import TritonPythonModel as TextModel

PAIRS = Path(__file__).parent / "text_pair_model.py"
if PAIRS.exists():
    import text_pair_model  # noqa: F401 - it makes text_model read pairs


class TritonPythonModel(TextModel):  # type: ignore[misc]
    """The interface of Triton's Python backend."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Set the size of a small batch, then load as usual."""
        parameters = json.loads(args["model_config"])["parameters"]
        text_model.TOKENS_PER_THREAD = int(parameters["batch_tokens"]["string_value"])
        super().initialize(args)
