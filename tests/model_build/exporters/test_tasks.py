"""Every Hugging Face task: its answers, its labels, and the models that it rejects."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.errors import ExportError
from tests.model_build.frameworks import framework_of
from tests.model_build.tiny import TEXTS
from tests.model_build.tiny_tasks import LABELS, QUESTIONS, TOKEN_LABELS, save_text_model

BART = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "decoder_start_token_id": 3}
CLASSIFIER = "BertForSequenceClassification"


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Load an architecture by a recipe of a kind; each model is saved once."""
    folders: dict[str, Path] = {}

    def loaded(
        architecture: str, kind: str, *, recipe: Mapping[str, Any] | None = None, **changes: Any
    ) -> Any:
        key = f"{architecture} {sorted(changes.items())}"
        if key not in folders:
            folders[key] = save_text_model(tmp_path_factory.mktemp("model"), architecture, **changes)
        return framework_of(folders[key], kind, **{"max_length": 32, **(recipe or {})})

    return loaded


@pytest.mark.parametrize(
    ("architecture", "positions", "expected"),
    [
        (CLASSIFIER, 60, 60),
        (CLASSIFIER, 512, 256),
        ("RobertaForSequenceClassification", 60, 59),  # its first position follows the padding token's id, 0
    ],
)
def test_the_default_length_fits_the_models_positions(load, architecture, positions, expected):
    recipe, options = {"max_length": None}, {"labels": LABELS, "max_position_embeddings": positions}
    assert load(architecture, "text-classification", recipe=recipe, **options).max_length == expected


def test_padding_has_no_score_and_no_state(load):
    tagger = load("BertForTokenClassification", "token-classification", labels=TOKEN_LABELS)
    tokens = tagger.tokenize(TEXTS, extra=tagger.token_tensors)
    offsets, is_token = tokens.pop("offsets"), tokens["attention_mask"] == 1
    np.testing.assert_allclose(tagger.answer(tokens)["scores"].sum(axis=2), is_token, atol=1e-6)
    # Characters, not bytes; special tokens and padding have no position.
    text = "naïve café, 東京"
    row = TEXTS.index(text)
    assert "".join(text[begin:end] for begin, end in offsets[row]) == text.replace(" ", "")
    assert not offsets[row][~is_token[row]].any()
    assert not offsets[row][0].any()
    states = load("MPNetModel", "feature-extraction").answer(tokens)["last_hidden_state"]
    assert not states[~is_token].any()


def test_token_types_separate_question_and_context(load):
    reader = load("BertForQuestionAnswering", "question-answering")
    tokens = reader.tokenize(QUESTIONS)
    one_type = tokens | {"token_type_ids": tokens["token_type_ids"] * 0}
    answers = [reader.answer(row)["start_logits"] for row in (one_type, tokens)]
    assert np.abs(answers[0] - answers[1]).max() > 0.01


ODDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda logits: 1 / (1 + np.exp(-logits)),
    "none": lambda logits: logits,
    "softmax": lambda logits: np.exp(logits) / np.exp(logits).sum(),
}


@pytest.mark.parametrize(
    ("labels", "problem", "activation", "expected"),
    [
        (LABELS, "multi_label_classification", None, "sigmoid"),
        (LABELS, "regression", None, "none"),
        (LABELS, "single_label_classification", "sigmoid", "sigmoid"),
        (LABELS, None, None, "softmax"),
        ({0: "good"}, None, None, "sigmoid"),
    ],
)
def test_activation_comes_from_the_recipe_or_the_model(load, labels, problem, activation, expected):
    framework, plain = (
        load(
            CLASSIFIER,
            "text-classification",
            recipe={"activation": name},
            labels=labels,
            problem_type=problem,
        )
        for name in (activation, "none")
    )
    tokens = framework.tokenize(TEXTS[:1])
    odds = ODDS[expected](plain.answer(tokens)["scores"][0])
    np.testing.assert_allclose(framework.answer(tokens)["scores"][0], odds, atol=1e-6)


def test_an_encoder_is_found_in_a_model_with_a_decoder(load):
    encoder = load("BartModel", "feature-extraction", **BART).head.encoder
    assert type(encoder).__name__ == "BartEncoder"


@pytest.mark.parametrize(
    ("architecture", "kind", "recipe", "options", "value"),
    [
        ("BertModel", "text-classification", {}, {}, "classifier.bias, classifier.weight"),
        ("BartModel", "token-classification", {}, BART, "no bart model"),
        (CLASSIFIER, "text-classification", {"activation": "softmax"}, {"labels": {0: "good"}}, "softmax"),
    ],
)
def test_a_model_of_another_task(load, architecture, kind, recipe, options, value):
    with pytest.raises(ExportError, match=value):
        load(architecture, kind, recipe=recipe, **options)


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ('"model_type": "bert"', '"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}', "Python code"),
        ('"2": "cross"', '"7": "cross"', "[0, 1, 7]"),
    ],
    ids=["code", "labels"],
)
def test_a_config_that_is_rejected(tmp_path, old, new, value):
    folder = save_text_model(tmp_path, CLASSIFIER, labels=LABELS)
    (folder / "config.json").write_text((folder / "config.json").read_text().replace(old, new))
    (folder / "own.py").write_text("raise SystemExit('this ran')")
    with pytest.raises(ExportError) as caught:
        framework_of(folder, "text-classification")
    assert value in str(caught.value)


def test_a_tokenizer_without_fast_form(load, monkeypatch):
    import transformers

    slow = type("Slow", (), {"is_fast": False, "pad_token_id": 0})
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: slow())
    with pytest.raises(ExportError, match="no fast"):
        load("BertModel", "feature-extraction")
