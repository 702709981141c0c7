"""Text pairs: scores are those of transformers with the settings that sentence-transformers saved."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.errors import ExportError, FieldError
from model_build.exporters.text_framework import TextFramework
from tests.model_build.tiny_tasks import save_text_model, text_framework

NLI = {0: "contradiction", 1: "entailment", 2: "neutral"}
SCORE = {0: "LABEL_0"}
SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
PAIRS = [
    ("a man", "is eating food"),
    ("two men", "the girl is carrying a baby " * 20),
    ("the girl is carrying a baby " * 20, "food"),
    ("a man is eating food " * 9, "the girl is carrying a baby " * 9),
]
SaveModel = Callable[..., Path]


@pytest.fixture
def save_model(tmp_path: Path) -> SaveModel:
    """Save a model whose JSON files have some keys changed."""

    def save(labels: dict[int, str], files: Mapping[str, Any], *, architecture: str = "Bert") -> Path:
        save_text_model(tmp_path, f"{architecture}ForSequenceClassification", labels=labels)
        for name, changes in {"tokenizer_config.json": {"model_max_length": 50}, **files}.items():
            file = tmp_path / name
            before = json.loads(file.read_text()) if file.is_file() else {}
            file.write_text(json.dumps(changes if isinstance(changes, list) else {**before, **changes}))
        return tmp_path

    return save


def framework_of(folder: Path) -> TextFramework:
    return text_framework(folder, kind="text-pair-classification")


def logits(folder: Path, length: int) -> np.ndarray:
    """Return the logits of PAIRS by transformers."""
    import torch
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model: Any = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    texts, pairs = (list(column) for column in zip(*PAIRS, strict=True))
    tokens = tokenizer(texts, pairs, padding=True, truncation=True, max_length=length, return_tensors="pt")
    with torch.inference_mode():
        values: np.ndarray = model(**tokens).logits.numpy()
    return values


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def softmax(values: np.ndarray) -> np.ndarray:
    return np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)


def plain(values: np.ndarray) -> np.ndarray:
    return values


@pytest.mark.parametrize(
    ("labels", "files", "activation"),
    [
        pytest.param(SCORE, {}, sigmoid, id="one label"),
        pytest.param(NLI, {}, softmax, id="NLI"),
        pytest.param(SCORE, {"config.json": {"problem_type": "regression"}}, plain, id="regression"),
        # The next ids are the versions of sentence-transformers that save such settings.
        pytest.param(
            SCORE, {"config.json": {"sbert_ce_default_activation_function": IDENTITY}}, plain, id="before 4"
        ),
        pytest.param(
            NLI, {"config.json": {"sentence_transformers": {"activation_fn": SIGMOID}}}, sigmoid, id="4 and 5"
        ),
        pytest.param(
            SCORE,
            {
                "config_sentence_transformers.json": {"activation_fn": IDENTITY},
                "config.json": {"sentence_transformers": {"activation_fn": SIGMOID}},
            },
            plain,
            id="6",
        ),
    ],
)
def test_scores_are_those_of_the_source(save_model, labels, files, activation):
    folder = save_model(labels, files)
    framework = framework_of(folder)
    assert framework.max_length == 50
    assert framework.inputs == ("input_ids", "attention_mask", "token_type_ids")
    assert framework.head.labels == {"scores": tuple(labels.values())}
    answer = framework.answer(framework.tokenize(PAIRS))["scores"]
    np.testing.assert_allclose(answer, activation(logits(folder, 50)), atol=1e-6)


@pytest.mark.parametrize("architecture", ["Bert", "Roberta"])
def test_served_tokenizer_truncates_the_longer_text(save_model, architecture):
    from tokenizers import Tokenizer

    framework = framework_of(save_model(SCORE, {}, architecture=architecture))
    served = Tokenizer.from_str(framework.served_tokenizer()).encode_batch(PAIRS)
    expected = framework.tokenize(PAIRS, extra=("token_type_ids",))
    np.testing.assert_array_equal([row.ids for row in served], expected["input_ids"])
    np.testing.assert_array_equal([row.type_ids for row in served], expected["token_type_ids"])
    first, second = (served[3].sequence_ids.count(text) for text in (0, 1))
    assert abs(first - second) <= 1, "two long texts are cut to one length"
    short_text = framework.tokenize([("", "food")])["input_ids"][0]
    assert served[2].sequence_ids.count(1) == len(short_text) - 3, "a short text stays whole"


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        (
            {"config.json": {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.GELU"}}},
            FieldError,
            r"config.json: sentence_transformers.activation_fn.*GELU",
        ),
        (
            {"config_sentence_transformers.json": {"activation_fn": "own.code.Scale"}},
            FieldError,
            r"own.code.Scale",
        ),
        (
            {"config_sentence_transformers.json": {"prompts": {"q": "query: "}, "default_prompt_name": "q"}},
            ExportError,
            r"'query: '",
        ),
        (
            {
                "modules.json": [
                    {"type": "sentence_transformers.models.Transformer", "path": ""},
                    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
                ]
            },
            ExportError,
            r"modules.json lists Transformer, Pooling",
        ),
        (
            {"sentence_bert_config.json": {"transformer_task": "text-generation"}},
            ExportError,
            r"transformer_task is 'text-generation'",
        ),
        (
            {
                "tokenizer_config.json": {"model_max_length": 9000},
                "config.json": {"max_position_embeddings": 10**4},
            },
            FieldError,
            r"9000.*8192",
        ),
    ],
)
def test_settings_that_cannot_be_applied(save_model, files, error, message):
    with pytest.raises(error, match=message):
        framework_of(save_model(SCORE, files))
