"""The tokenizer's code, called as Triton does, with records instead of Triton's own classes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from model_build.exporters.text_framework import TextFramework
from model_build.sources import FetchedSource
from tritonstack.spec.models.recipes import TextEmbeddingRecipe


@pytest.fixture
def model(
    tmp_path: Path,
    tiny_source: FetchedSource,
    tiny_recipe: TextEmbeddingRecipe,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    backend = ModuleType("triton_python_backend_utils")
    backend.__dict__.update(
        Tensor=lambda name, array: SimpleNamespace(name=name, as_numpy=lambda: array),
        TritonError=lambda message: message,
        InferenceResponse=lambda tensors=(), error=None: SimpleNamespace(
            error=error, outputs={tensor.name: tensor.as_numpy() for tensor in tensors}
        ),
        get_input_tensor_by_name=lambda request, name: request[name],
    )
    monkeypatch.setitem(sys.modules, backend.__name__, backend)
    framework = TextFramework(source=tiny_source, recipe=tiny_recipe)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "tokenizer.json").write_text(framework.served_tokenizer())
    code = importlib.reload(importlib.import_module("model_build.served.text_tokenizer"))
    served = code.TritonPythonModel()
    served.initialize({"model_repository": str(tmp_path), "model_version": "1"})
    return served


def request(*texts: str | bytes) -> dict[str, Any]:
    raw = [[text.encode() if isinstance(text, str) else text] for text in texts]
    return {"TEXT": SimpleNamespace(as_numpy=lambda: np.array(raw, dtype=np.object_))}


def test_requests_are_tokenized_together_and_answered_separately(model: Any) -> None:
    short, long = model.execute([request("a man"), request("eating food", "the girl is carrying a baby")])
    assert short.outputs["input_ids"].shape[0] == 1
    assert long.outputs["input_ids"].shape[0] == 2
    assert short.outputs["input_ids"].shape[1] == long.outputs["input_ids"].shape[1]
    assert short.outputs["input_ids"].dtype == np.int64
    used = int(short.outputs["attention_mask"].sum())
    plain = Tokenizer.from_str(model.tokenizer.to_str())
    plain.no_padding()
    assert short.outputs["input_ids"][0, :used].tolist() == plain.encode("a man").ids
    assert not short.outputs["input_ids"][0, used:].any()


def test_bad_request_does_not_fail_other_requests(model: Any) -> None:
    before, bad, after = model.execute([request("a man"), request("fine", b"\xff\xfe"), request("food")])
    assert (before.error, after.error) == (None, None)
    assert "not UTF-8" in bad.error
    alone = model.execute([request("food")])[0]
    length = alone.outputs["input_ids"].shape[1]
    assert after.outputs["input_ids"][:, :length].tolist() == alone.outputs["input_ids"].tolist()


def test_only_bad_requests(model: Any) -> None:
    responses = model.execute([request(b"\xff"), request(b"\xfe")])
    assert all(response.error for response in responses)
