"""SageMaker's multi-model contract, spoken to a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.triton_runtime.asking import outputs, tensor
from tests.triton_runtime.conftest import add_ensemble
from triton_runtime import TritonServer

pytestmark = pytest.mark.e2e
Start = Callable[..., TritonServer]
TARGET = {"X-Amzn-SageMaker-Target-Model": "team/both.tar.gz"}


def test_load_invoke_unload(start: Start, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    server = start(models, SAGEMAKER_MULTI_MODEL="true", SAGEMAKER_TRITON_PING_MODE="")
    add_ensemble(models / "abc/model")
    load = {"model_name": "abc", "url": str(server.model_root / "abc/model")}
    loaded = server.request("POST", "/models", body=json.dumps(load).encode(), headers=TARGET)
    assert loaded.status == 200, loaded.body
    inputs = {"inputs": [tensor("x", "FP32", [1.0]), tensor("row", "INT64", [0])]}
    answer = server.request("POST", "/models/abc/invoke", body=json.dumps(inputs).encode(), headers=TARGET)
    assert outputs(answer) == {"y": [-2.0]}
    assert server.request("DELETE", "/models/abc", headers=TARGET).status == 200
    assert server.request("GET", "/models/abc").status == 404
