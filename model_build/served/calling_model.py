"""A Python model that calls other models by the names in model.yaml.

Triton finds a called model by its name alone, in all artifacts of a container. So each artifact has names of
its own for the models that it calls; called_models.json lists them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import c_python_backend_utils
import triton_python_backend_utils as pb_utils

NAMES = json.loads(Path(__file__).with_name("called_models.json").read_text())
NAME_POSITION = 4


def own_name(name: str) -> str:
    """Return a model's name in this artifact."""
    if name not in NAMES:
        declared = ", ".join(sorted(NAMES))
        raise c_python_backend_utils.TritonModelException(
            f"the code calls the model {name!r}, which model.yaml does not declare in `recipe.calls`; "
            f"declared: {declared}"
        )
    return str(NAMES[name])


class InferenceRequest(c_python_backend_utils.InferenceRequest):  # type: ignore[misc]
    """A request to a declared model."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take the arguments of Triton's class."""
        if "model_name" in options:
            options["model_name"] = own_name(options["model_name"])
        elif len(arguments) > NAME_POSITION:
            named = own_name(arguments[NAME_POSITION])
            arguments = (*arguments[:NAME_POSITION], named, *arguments[NAME_POSITION + 1 :])
        super().__init__(*arguments, **options)


# Triton copies the class from the first module to the second, before or after it imports this file.
for module in (c_python_backend_utils, pb_utils):
    module.InferenceRequest = InferenceRequest

from .own_model import TritonPythonModel  # type: ignore[import-not-found]  # noqa: E402, F401
