"""What loads a text model without the end of a task."""

from __future__ import annotations

from typing import Any

import transformers

POOLER = ("pooler",)
"""A layer that some architectures bring for a task of their own, which nothing here looks at."""


def encoder_class(config: Any) -> Any:
    """The class for the encoder alone where transformers has one, for the whole model where not."""
    encoders: Any = transformers.AutoModelForTextEncoding
    return encoders if type(config) in encoders._model_mapping else transformers.AutoModel


def encoder_of(model: Any) -> Any:
    """The encoder of a model that has a decoder too; any other model as it is."""
    return model.get_encoder() if getattr(model.config, "is_encoder_decoder", False) else model
