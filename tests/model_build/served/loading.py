"""Call Python models as Triton does, with records instead of Triton's own classes."""

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest


def load_served(
    name: str,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    data_type: str = "TYPE_INT64",
    parameters: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """Load the model of model_build/served/<name>.py, started in version 1 of a folder."""
    backend = ModuleType("triton_python_backend_utils")
    backend.__dict__.update(
        Tensor=lambda name, array: SimpleNamespace(name=name, as_numpy=lambda: array),
        TritonError=lambda message: message,
        InferenceResponse=lambda tensors=(), error=None: SimpleNamespace(
            error=error, outputs={tensor.name: tensor.as_numpy() for tensor in tensors}
        ),
        get_input_tensor_by_name=lambda request, name: request[name],
        Logger=SimpleNamespace(log_error=print),
        TRITONSERVER_RESPONSE_COMPLETE_FINAL=1,
    )
    monkeypatch.setitem(sys.modules, backend.__name__, backend)
    code = importlib.reload(importlib.import_module(f"model_build.served.{name}"))
    served = code.TritonPythonModel()
    config = {
        "input": [{"name": tensor} for tensor in inputs],
        "output": [{"name": tensor, "data_type": data_type} for tensor in outputs],
        "instance_group": [{"count": 1}],
        "parameters": {name: {"string_value": value} for name, value in parameters.items()},
    }
    served.initialize(
        {"model_repository": str(repository), "model_version": "1", "model_config": json.dumps(config)}
    )
    return served


def text_request(*texts: str | bytes) -> dict[str, Any]:
    """Return a request with one column of texts."""
    raw = [[text.encode() if isinstance(text, str) else text] for text in texts]
    return {"TEXT": SimpleNamespace(as_numpy=lambda: np.array(raw, dtype=np.object_))}


def fail_to_tokenize(model: Any, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a model's tokenizer fail for requests with a word."""
    encode = model.tokenizer.encode_batch_fast

    def failing(texts: list[str]) -> Any:
        if word in texts:
            raise ValueError("no token for it")
        return encode(texts)

    monkeypatch.setattr(model, "tokenizer", SimpleNamespace(encode_batch_fast=failing))
