"""Text pairs: scores are those of transformers with the settings that sentence-transformers saved."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.errors import ExportError, FieldError
from tests.model_build.frameworks import change_json, framework_of
from tests.model_build.tiny_tasks import save_text_model

KIND = "text-pair-classification"
NLI = {0: "contradiction", 1: "entailment", 2: "neutral"}
SCORE = {0: "LABEL_0"}
ACTIVATIONS = "torch.nn.modules.activation"
SIGMOID, IDENTITY = f"{ACTIVATIONS}.Sigmoid", "torch.nn.modules.linear.Identity"
PAIRS = [
    ("a man", "is eating food"),
    ("two men", "the girl is carrying a baby " * 20),
    ("the girl is carrying a baby " * 20, "food"),
    ("a man is eating food " * 9, "the girl is carrying a baby " * 9),
]


@pytest.fixture
def save_model(tmp_path: Path) -> Callable[..., Path]:
    """Save a model, and change keys of its JSON files."""

    def save(labels: dict[int, str], files: Mapping[str, Any], *, architecture: str = "Bert") -> Path:
        save_text_model(tmp_path, f"{architecture}ForSequenceClassification", labels=labels)
        change_json(tmp_path / "tokenizer_config.json", model_max_length=50)
        for name, changes in files.items():
            change_json(tmp_path / name, **changes)
        return tmp_path

    return save


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


SCORES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda values: 1 / (1 + np.exp(-values)),
    "softmax": lambda values: np.exp(values) / np.exp(values).sum(axis=1, keepdims=True),
    "plain": lambda values: values,
}
CONFIG, NEWEST = "config.json", "config_sentence_transformers.json"
IN_4 = {"sentence_transformers": {"activation_fn": SIGMOID}}
# The ids after `regression` are the versions of sentence-transformers that save such settings.
SETTINGS: dict[str, tuple[dict[int, str], dict[str, Any], str]] = {
    "one label": (SCORE, {}, "sigmoid"),
    "NLI": (NLI, {}, "softmax"),
    "regression": (SCORE, {CONFIG: {"problem_type": "regression"}}, "plain"),
    "before 4": (SCORE, {CONFIG: {"sbert_ce_default_activation_function": IDENTITY}}, "plain"),
    "4 and 5": (NLI, {CONFIG: IN_4}, "sigmoid"),
    "6": (SCORE, {NEWEST: {"activation_fn": IDENTITY}, CONFIG: IN_4}, "plain"),
}


@pytest.mark.parametrize(("labels", "files", "activation"), SETTINGS.values(), ids=SETTINGS)
def test_scores_are_those_of_the_source(save_model, labels, files, activation):
    folder = save_model(labels, files)
    framework = framework_of(folder, KIND)
    assert framework.max_length == 50
    assert framework.inputs == ("input_ids", "attention_mask", "token_type_ids")
    assert framework.head.labels == {"scores": tuple(labels.values())}
    answer = framework.answer(framework.tokenize(PAIRS))["scores"]
    np.testing.assert_allclose(answer, SCORES[activation](logits(folder, 50)), atol=1e-6)


@pytest.mark.parametrize("architecture", ["Bert", "Roberta"])
def test_served_tokenizer_truncates_the_longer_text(save_model, architecture):
    from tokenizers import Tokenizer

    framework = framework_of(save_model(SCORE, {}, architecture=architecture), KIND)
    served = Tokenizer.from_str(framework.served_tokenizer()).encode_batch(PAIRS)
    expected = framework.tokenize(PAIRS, extra=("token_type_ids",))
    np.testing.assert_array_equal([row.ids for row in served], expected["input_ids"])
    np.testing.assert_array_equal([row.type_ids for row in served], expected["token_type_ids"])
    first, second = (served[3].sequence_ids.count(text) for text in (0, 1))
    assert abs(first - second) <= 1, "two long texts are cut to one length"
    short_text = framework.tokenize([("", "food")])["input_ids"][0]
    assert served[2].sequence_ids.count(1) == len(short_text) - 3, "a short text stays whole"


PROMPT = {"prompts": {"q": "query: "}, "default_prompt_name": "q"}
TOO_LONG = {"tokenizer_config.json": {"model_max_length": 9000}, CONFIG: {"max_position_embeddings": 10**4}}
REJECTED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({CONFIG: {"sentence_transformers": {"activation_fn": f"{ACTIVATIONS}.GELU"}}}, FieldError, "GELU"),
    ({NEWEST: {"activation_fn": "own.code.Scale"}}, FieldError, "own.code.Scale"),
    ({NEWEST: PROMPT}, ExportError, "'query: '"),
    (
        {"sentence_bert_config.json": {"transformer_task": "text-generation"}},
        ExportError,
        "'text-generation'",
    ),
    (TOO_LONG, FieldError, "9000.*8192"),
]


@pytest.mark.parametrize(("files", "error", "value"), REJECTED)
def test_settings_that_cannot_be_applied(save_model, files, error, value):
    with pytest.raises(error, match=value):
        framework_of(save_model(SCORE, files), KIND)


def test_modules_of_another_model(save_model):
    folder = save_model(SCORE, {})
    modules = [
        {"type": f"sentence_transformers.models.{kind}", "path": ""} for kind in ("Transformer", "Pooling")
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ExportError, match="Transformer, Pooling"):
        framework_of(folder, KIND)
