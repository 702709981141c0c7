"""Pickled weights: loaded only if model.yaml trusts them, and then only as numbers."""

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.errors import ExportError, SourceError
from model_build.exporters.text_framework import TextFramework
from model_build.sources import FetchedSource
from tests.model_build.tiny import TEXTS, write_model_file
from tests.model_build.written_repositories import write_repository
from tritonstack.base.yaml import load_document
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.model_fields import Trust
from tritonstack.spec.models.recipes import TextEmbeddingRecipe

TRUSTED = Trust(pickle="made by this very test")
RECIPE = TextEmbeddingRecipe(kind="text-embedding", max_length=24)


def as_pickle(source: FetchedSource, folder: Path, *, parts: int = 1) -> FetchedSource:
    """Save the same model's weights with torch.save, in one file or in several."""
    import torch
    from safetensors.torch import load_file

    shutil.copytree(source.folder, folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    if parts == 1:
        torch.save(weights, folder / "pytorch_model.bin")
        return FetchedSource(folder, "", "")
    places = {}
    for part in range(parts):
        file = f"pytorch_model-{part + 1:05}-of-{parts:05}.bin"
        tensors = {name: weights[name] for name in sorted(weights)[part::parts]}
        torch.save(tensors, folder / file)
        places |= dict.fromkeys(tensors, file)
    index = {"metadata": {}, "weight_map": places}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    return FetchedSource(folder, "", "")


@pytest.mark.parametrize("parts", [1, 3])
def test_a_trusted_pickle_is_the_same_model(tiny_source, tmp_path, parts):
    source = as_pickle(tiny_source, tmp_path / "model", parts=parts)
    pickled = TextFramework(source=source, recipe=RECIPE, trust=TRUSTED)
    safe = TextFramework(source=tiny_source, recipe=RECIPE)
    tokens = safe.tokenize(TEXTS)
    np.testing.assert_array_equal(pickled.answer(tokens)["embedding"], safe.answer(tokens)["embedding"])


def test_no_untrusted_pickle_is_read(tiny_source, tmp_path):
    source = as_pickle(tiny_source, tmp_path / "model")
    with pytest.raises(ExportError, match=r"model\.safetensors"):
        TextFramework(source=source, recipe=RECIPE)


class _Runs:
    """The code that a pickle runs when loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.file),)


def test_a_trusted_pickle_still_runs_no_code(tiny_source, tmp_path):
    import torch

    source = as_pickle(tiny_source, tmp_path / "model")
    file = source.folder / "pytorch_model.bin"
    code = _Runs(tmp_path / "proof")
    for save in (
        lambda: torch.save({**torch.load(file), "more": code}, file),
        lambda: file.write_bytes(pickle.dumps(code)),
    ):
        save()
        with pytest.raises(ExportError, match="even if trusted"):
            TextFramework(source=source, recipe=RECIPE, trust=TRUSTED)
    assert not (tmp_path / "proof").exists()


def test_safetensors_take_precedence_over_a_pickle(tiny_source, tmp_path):
    source = as_pickle(tiny_source, tmp_path / "model")
    shutil.copyfile(tiny_source.folder / "model.safetensors", source.folder / "model.safetensors")
    (source.folder / "pytorch_model.bin").write_bytes(b"never read")
    TextFramework(source=source, recipe=RECIPE, trust=TRUSTED)


def write_model(folder: Path, *, trusted: bool) -> Path:
    recipe = "kind: text-embedding, input: tokens, max_length: 24"
    reason = "trust: {pickle: made by this very test}\n" if trusted else ""
    return write_model_file(folder, recipe=recipe, source="file://weights", tests=("A man.",), extra=reason)


def test_the_reason_in_model_yaml_decides(tiny_source, tmp_path):
    as_pickle(tiny_source, tmp_path / "weights")
    untrusted = load_document(write_model(tmp_path, trusted=False), ModelSpec)
    with pytest.raises(SourceError, match=r"pytorch_model\.bin"):
        write_repository(untrusted, tmp_path / "untrusted")
    trusted = load_document(write_model(tmp_path, trusted=True), ModelSpec)
    assert write_repository(trusted, tmp_path / "trusted").parity[0].min_cosine > 0.9999


def test_pickle_that_is_truncated_or_has_no_weights(tiny_source: FetchedSource, tmp_path: Path) -> None:
    import torch

    source = as_pickle(tiny_source, tmp_path / "model")
    file = source.folder / "pytorch_model.bin"
    whole = file.read_bytes()
    torch.save([1, 2], file)
    for content in (whole[:-1000], b"", file.read_bytes()):
        file.write_bytes(content)
        with pytest.raises(ExportError, match=r"load the model: \w"):
            TextFramework(source=source, recipe=RECIPE, trust=TRUSTED)
