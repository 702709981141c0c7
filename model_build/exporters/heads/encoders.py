"""Load a text model without a task head."""

from __future__ import annotations

from typing import Any

import transformers

POOLER = ("pooler",)
"""A pooling layer that some architectures add, which nothing here reads."""


def encoder_class(config: Any) -> Any:
    """Return the encoder-only class if transformers has one, else the class of the whole model."""
    encoders: Any = transformers.AutoModelForTextEncoding
    return encoders if type(config) in encoders._model_mapping else transformers.AutoModel


def encoder_of(model: Any) -> Any:
    """Return the encoder of an encoder-decoder model; any other model unchanged."""
    return model.get_encoder() if getattr(model.config, "is_encoder_decoder", False) else model
