"""vLLM models: their repositories, and unsupported settings."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.recipes import recipe_for
from model_build.recipes.vllm import require_generate
from model_build.repository.config import read_config
from tests.model_build.supplied_models import write_supplied
from tests.model_build.written_repositories import contents, write_repository
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import parse_target
from tritonstack.files.model.model import ModelSpec


def vllm_model(folder: Path, engine: dict[str, Any] | None = None, **more: Any) -> Document[ModelSpec]:
    from safetensors.numpy import save_file

    (folder / "weights").mkdir(parents=True, exist_ok=True)
    save_file({"w": np.ones(2, np.float32)}, folder / "weights/model.safetensors")
    (folder / "weights/config.json").write_text("{}")
    recipe = {"kind": "vllm", "engine": engine or {}}
    return write_supplied(folder, recipe, test_inputs=["Hello"], batching={}, **more)


def test_a_vllm_model(tmp_path):
    repository = write_repository(
        vllm_model(tmp_path, {"max_model_len": 512, "enforce_eager": True}), tmp_path / "work", "sm86-25.04"
    )
    files = contents(repository.folder / "tiny")
    assert json.loads(files["1/model.json"]) == {
        "model": "/opt/ml/model/tiny/1",
        "max_model_len": 512,
        "enforce_eager": True,
    }
    assert {"1/model.safetensors", "1/config.json"} <= files.keys()
    config = read_config(repository.folder / "tiny/config.pbtxt")
    assert config.backend == "vllm"
    assert config.model_transaction_policy.decoupled
    assert config.max_batch_size == 0


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"model": "x"}, "recipe.engine.model"),
        ({"max_model_length": 4}, "did you mean 'max_model_len'?"),
        ({"max-num-seqs": 4}, "did you mean 'max_num_seqs'?"),
        ({"trust_remote_code": True}, "not trusted"),
        ({"load_format": "pt"}, "'pt' may be a pickle"),
        ({"gpu_memory_utilization": 1.5}, "got 1.5"),
        ({"tensor_parallel_size": 0}, "got 0"),
        ({"enable_lora": True}, "adapters"),
    ],
)
def test_arguments_not_passed_to_the_engine(tmp_path, engine, message):
    with pytest.raises(InvalidFilesError) as caught:
        recipe_for(vllm_model(tmp_path, engine))
    assert message in str(caught.value)


def test_releases_whose_front_end_rejects_streamed_responses():
    require_generate([parse_target("sm86-25.04"), parse_target("sm86-24.09")])
    with pytest.raises(UsageError, match=r"24\.09"):
        require_generate([parse_target("sm86-24.09")])
