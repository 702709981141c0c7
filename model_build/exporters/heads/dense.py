"""A dense layer of sentence-transformers: linear, activation, and an optional residual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from model_build.errors import ExportError
from model_build.exporters.sentence_settings import Dense
from tritonstack.files.model.fields import Trust

_NAMES = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "LeakyReLU", "ELU", "Mish", "Softplus")
ACTIVATIONS: Mapping[str, type[torch.nn.Module]] = {name: getattr(torch.nn, name) for name in _NAMES}
"""Supported activations by name, with default arguments, as in sentence-transformers."""
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"


class DenseLayer(torch.nn.Module):
    """Load the layer with its weights."""

    def __init__(self, dense: Dense, *, trust: Trust) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(dense.in_features, dense.out_features, bias=dense.bias)
        self.is_residual = dense.residual
        if dense.residual and dense.in_features != dense.out_features:
            self.residual = torch.nn.Linear(dense.in_features, dense.out_features, bias=False)
        self.activation = _activation(dense)
        try:
            self.load_state_dict(_weights(dense, trust))
        except RuntimeError as error:
            raise ExportError(
                f"the weights in {dense.folder.name} do not match its layer: {' '.join(str(error).split())}",
                remedy="check that its config.json and weights match",
            ) from error

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the layer's output."""
        answer: torch.Tensor = self.activation(self.linear(vectors))
        if not self.is_residual:
            return answer
        return answer + (self.residual(vectors) if hasattr(self, "residual") else vectors)


def _activation(dense: Dense) -> torch.nn.Module:
    package, _, name = dense.activation.rpartition(".")
    if package.partition(".")[0] != "torch" or name not in ACTIVATIONS:
        raise ExportError(
            f"{dense.folder.name}/config.json: unknown activation_function {dense.activation!r}; allowed: "
            f"torch.nn's {', '.join(ACTIVATIONS)}",
            remedy="use a recipe of kind python",
        )
    return ACTIVATIONS[name]()


_FETCH_AGAIN = "fetch or save the file again; it is damaged or incomplete"


def _weights(dense: Dense, trust: Trust) -> Any:
    if (dense.folder / SAFE).is_file():
        try:
            return load_file(dense.folder / SAFE)
        except (SafetensorError, OSError) as error:
            raise ExportError(
                f"{dense.folder.name}/{SAFE} cannot be read: {error}", remedy=_FETCH_AGAIN
            ) from error
    if trust.pickle is not None and (dense.folder / PICKLED).is_file():
        try:
            return torch.load(dense.folder / PICKLED, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged pickle raises anything
            reason = " ".join(str(error).split())[:200]
            raise ExportError(
                f"{dense.folder.name}/{PICKLED} cannot be read: {reason}", remedy=_FETCH_AGAIN
            ) from error
    raise ExportError(
        f"{dense.folder.name} has no {SAFE} for its dense layer",
        remedy=f"save the model again with sentence-transformers, which writes {SAFE}; {PICKLED} needs "
        "`trust: {pickle: <reason>}`",
    )
