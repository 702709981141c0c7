"""Pickled weights: loaded only if model.yaml trusts them, and then only as numbers."""

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from model_build.errors import ExportError, SourceError
from tests.model_build.frameworks import TRUSTED, framework_of
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny import TEXTS
from tests.model_build.written_repositories import write_repository

RECIPE = {"kind": "text-embedding", "max_length": 24}


def as_pickle(tiny: Path, folder: Path, *, parts: int = 1) -> Path:
    """Save the same model's weights with torch.save, in one file or in several."""
    shutil.copytree(tiny, folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    if parts == 1:
        torch.save(weights, folder / "pytorch_model.bin")
        return folder
    places = {}
    for part in range(parts):
        file = f"pytorch_model-{part + 1:05}-of-{parts:05}.bin"
        tensors = {name: weights[name] for name in sorted(weights)[part::parts]}
        torch.save(tensors, folder / file)
        places |= dict.fromkeys(tensors, file)
    index = {"metadata": {}, "weight_map": places}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    return folder


@pytest.fixture
def source(tiny_folder: Path, tmp_path: Path) -> Path:
    return as_pickle(tiny_folder, tmp_path / "model")


@pytest.mark.parametrize("parts", [1, 3])
def test_a_trusted_pickle_is_the_same_model(tiny_folder, tmp_path, parts):
    pickled = framework_of(as_pickle(tiny_folder, tmp_path / "model", parts=parts), **RECIPE, trust=TRUSTED)
    safe = framework_of(tiny_folder, **RECIPE)
    tokens = safe.tokenize(TEXTS)
    np.testing.assert_array_equal(pickled.answer(tokens)["embedding"], safe.answer(tokens)["embedding"])


def test_no_untrusted_pickle_is_read(source):
    with pytest.raises(ExportError, match=r"model\.safetensors"):
        framework_of(source, **RECIPE)


class _Runs:
    """The code that a pickle runs when loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.file),)


def test_a_trusted_pickle_still_runs_no_code(source, tmp_path):
    file = source / "pytorch_model.bin"
    code = _Runs(tmp_path / "proof")
    for save in (
        lambda: torch.save({**torch.load(file), "more": code}, file),
        lambda: file.write_bytes(pickle.dumps(code)),
    ):
        save()
        with pytest.raises(ExportError, match="even if trusted"):
            framework_of(source, **RECIPE, trust=TRUSTED)
    assert not (tmp_path / "proof").exists()


def test_safetensors_take_precedence_over_a_pickle(tiny_folder, source):
    shutil.copyfile(tiny_folder / "model.safetensors", source / "model.safetensors")
    (source / "pytorch_model.bin").write_bytes(b"never read")
    framework_of(source, **RECIPE, trust=TRUSTED)


def test_the_reason_in_model_yaml_decides(source, tmp_path):
    recipe, tests = {**RECIPE, "input": "tokens"}, {"source": "file://model", "test_inputs": ["A man."]}
    with pytest.raises(SourceError, match=r"pytorch_model\.bin"):
        write_repository(write_supplied(tmp_path, recipe, **tests), tmp_path / "untrusted")
    trusted = write_supplied(tmp_path, recipe, **tests, trust={"pickle": "made by this very test"})
    assert write_repository(trusted, tmp_path / "trusted").parity[0].min_cosine > 0.9999


def test_pickle_that_is_truncated_or_has_no_weights(source):
    file = source / "pytorch_model.bin"
    whole = file.read_bytes()
    torch.save([1, 2], file)
    for content in (whole[:-1000], b"", file.read_bytes()):
        file.write_bytes(content)
        with pytest.raises(ExportError, match=r"load the model: \w"):
            framework_of(source, **RECIPE, trust=TRUSTED)
