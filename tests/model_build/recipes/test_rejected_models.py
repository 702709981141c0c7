"""Models that builds reject, each with its cause and remedy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn.ensemble
from safetensors.numpy import save_file

from tests.model_build.graph_texts import save_graph
from tests.model_build.supplied_models import save_rows, write_supplied
from tests.model_build.tiny_tasks import save_clip_model, save_text_model
from tests.model_build.written_repositories import error_of

TEXTS = {"recipe": {"kind": "text-embedding", "max_length": 24}, "test_inputs": ["a text"]}
FEATURES = {"recipe": {"kind": "feature-extraction", "max_length": 24}, "test_inputs": ["a text"]}
TREES = {"recipe": {"kind": "trees", "file": "a.joblib"}, "trust": {"pickle": "made by this very test"}}
ONNX = {"recipe": {"kind": "onnx"}, "test_inputs": [{"inputs": {"x": [-1.0, -2.0]}}]}


def timm(folder: Path) -> None:
    folder.mkdir(parents=True)
    facts = {"architecture": "resnet18", "num_classes": 10, "pretrained_cfg": {"tag": "a1_in1k"}}
    (folder / "config.json").write_text(json.dumps(facts))
    save_file({"w": np.zeros(2, np.float32)}, folder / "model.safetensors")


def without_tokenizer(folder: Path) -> None:
    save_text_model(folder, "BertModel")
    for file in folder.glob("tokenizer*"):
        file.unlink()


def pieces_alone(folder: Path) -> None:
    without_tokenizer(folder)
    (folder / "spiece.model").write_bytes(b"\x0a\x0e\x0a\x05<unk>\x15")


def vocabulary_elsewhere(folder: Path) -> None:
    without_tokenizer(folder)
    vocabulary = folder.parent / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "text"]))
    settings = {"tokenizer_class": "BertTokenizer", "vocab": str(vocabulary)}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def not_fitted(folder: Path) -> None:
    folder.mkdir(parents=True)
    save_rows(folder.parent / "rows.npz")
    joblib.dump(sklearn.ensemble.RandomForestClassifier(3), folder / "a.joblib")


def logarithm(folder: Path) -> None:
    save_graph(folder / "model.onnx", "(float[b, 2] x) => (float[b, 2] y) { y = Log(x) }")


CASES: dict[str, tuple[Callable[[Path], object], dict[str, Any], str, str]] = {
    "two halves": (save_clip_model, FEATURES, "clip is a text and image", "recipe onnx"),
    "timm": (timm, TEXTS, "timm checkpoint", ""),
    "no tokenizer": (without_tokenizer, TEXTS, "tokenizer", "add tokenizer.json"),
    "sentencepiece": (pieces_alone, TEXTS, "tokenizer", "tokenizer.json"),
    "a vocabulary elsewhere": (
        *(vocabulary_elsewhere, TEXTS, "tokenizer_config.json: vocab is '/", "remove `vocab`"),
    ),
    "not fitted": (not_fitted, TREES, "a.joblib from scikit-learn: AttributeError", "gradient-boosted trees"),
    "NaN": (logarithm, ONNX, "is NaN", "logarithm"),
}


@pytest.mark.parametrize("case", CASES)
def test_rejected_models(case, tmp_path):
    make, facts, message, remedy = CASES[case]
    make(tmp_path / "weights")
    tests = facts.get("test_inputs", [{"file": "rows.npz"}])
    model = write_supplied(tmp_path, **{**facts, "test_inputs": tests})
    error = error_of(lambda: model, tmp_path)
    assert message in error
    assert remedy in error.partition("help: ")[2]
