"""Every Hugging Face task: the exported graph answers as PyTorch does, and labels its outputs."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from model_build.data.graphs import ExportedGraph
from model_build.errors import ExportError
from model_build.exporters.framework import Framework
from model_build.exporters.text_framework import TextFramework
from tests.model_build.tiny import TEXTS
from tests.model_build.tiny_tasks import LABELS, QUESTIONS, TOKEN_LABELS, save_text_model, text_framework

Saved = Callable[..., Path]
BART = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "decoder_start_token_id": 3}


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Save each model once."""
    folders: dict[str, Path] = {}

    def save(architecture: str, **changes: Any) -> Path:
        key = f"{architecture} {sorted(changes.items())}"
        if key not in folders:
            folders[key] = save_text_model(tmp_path_factory.mktemp("model"), architecture, **changes)
        return folders[key]

    return save


def framework_of(folder: Path, **fields: object) -> TextFramework:
    return text_framework(folder, **{"max_length": 32, **fields})


def run(graph: ExportedGraph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(str(graph.file), providers=["CPUExecutionProvider"])
    names = [output.name for output in graph.outputs]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def assert_graph_answers(
    framework: Framework, graph: ExportedGraph, inputs: Mapping[str, np.ndarray]
) -> None:
    expected = framework.answer(inputs)
    assert {name: array.shape for name, array in expected.items()} == {
        name: array.shape for name, array in run(graph, inputs).items()
    }
    for name, array in run(graph, inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("architecture", "positions", "expected"),
    [
        ("BertForSequenceClassification", 60, 60),
        ("BertForSequenceClassification", 512, 256),
        ("RobertaForSequenceClassification", 60, 59),  # its first position follows the padding token's id, 0
    ],
)
def test_the_default_length_fits_the_models_positions(saved, architecture, positions, expected):
    folder = saved(architecture, labels=LABELS, max_position_embeddings=positions)
    assert framework_of(folder, kind="text-classification", max_length=None).max_length == expected


@pytest.mark.soak  # as with every export here: the first of a process takes ten seconds
@pytest.mark.parametrize("architecture", ["Bert", "Roberta", "DistilBert"])
def test_text_classification(saved, tmp_path, architecture):
    folder = saved(f"{architecture}ForSequenceClassification", labels=LABELS)
    framework = framework_of(folder, kind="text-classification")
    graph = framework.export(tmp_path / "1")
    assert [tensor.name for tensor in graph.inputs] == ["input_ids", "attention_mask"]
    (scores,) = graph.outputs
    assert (scores.name, scores.datatype, scores.shape) == ("scores", "FP32", (3,))
    assert scores.labels == ("calm", "glad", "cross")
    assert_graph_answers(framework, graph, framework.tokenize(TEXTS))
    random = np.random.default_rng(3)
    assert_graph_answers(framework, graph, framework.random_tokens(random, batch=1, length=32))
    answer = framework.answer(framework.tokenize(TEXTS))["scores"]
    np.testing.assert_allclose(answer.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("problem", "activation", "expected"),
    [
        ("multi_label_classification", None, "sigmoid"),
        ("regression", None, "none"),
        ("single_label_classification", "sigmoid", "sigmoid"),
        (None, None, "softmax"),
    ],
)
def test_activation_comes_from_the_recipe_or_the_model(saved, problem, activation, expected):
    model = saved("BertForSequenceClassification", labels=LABELS, problem_type=problem)
    framework = framework_of(model, kind="text-classification", activation=activation)
    tokens = framework.tokenize(TEXTS[:1])
    (plain,) = framework_of(model, kind="text-classification", activation="none").answer(tokens)["scores"]
    odds = {
        "sigmoid": 1 / (1 + np.exp(-plain)),
        "none": plain,
        "softmax": np.exp(plain) / np.exp(plain).sum(),
    }
    np.testing.assert_allclose(framework.answer(tokens)["scores"][0], odds[expected], atol=1e-6)


def test_one_label_is_a_binary_classifier(saved):
    model = saved("BertForSequenceClassification", labels={0: "good"})
    scores = framework_of(model, kind="text-classification").answer
    tokens = framework_of(model, kind="text-classification").tokenize(TEXTS[:1])
    assert 0 < scores(tokens)["scores"][0, 0] < 1
    with pytest.raises(ExportError, match="softmax"):
        framework_of(model, kind="text-classification", activation="softmax")


@pytest.mark.soak
def test_token_classification(saved, tmp_path):
    framework = framework_of(
        saved("BertForTokenClassification", labels=TOKEN_LABELS), kind="token-classification"
    )
    graph = framework.export(tmp_path / "1")
    (scores,) = graph.outputs
    assert (scores.shape, scores.labels) == ((-1, 4), ("O", "B-PER", "I-PER", "B-LOC"))
    tokens = framework.tokenize(TEXTS, extra=framework.token_tensors)
    offsets = tokens.pop("offsets")
    assert_graph_answers(framework, graph, tokens)
    answer = framework.answer(tokens)["scores"]
    is_token = tokens["attention_mask"] == 1
    np.testing.assert_allclose(answer.sum(axis=2), is_token, atol=1e-6)
    # Characters, not bytes; special tokens and padding have no position.
    text = "naïve café, 東京"
    row = TEXTS.index(text)
    words = [text[begin:end] for begin, end in offsets[row] if end > begin]
    assert "".join(words) == text.replace(" ", "")
    assert not offsets[row][~is_token[row]].any()
    assert not offsets[row][0].any()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("architecture", "inputs"),
    [
        ("BertForQuestionAnswering", ["input_ids", "attention_mask", "token_type_ids"]),
        ("RobertaForQuestionAnswering", ["input_ids", "attention_mask"]),
    ],
)
def test_question_answering(saved, tmp_path, architecture, inputs):
    """Token types are an input if the tokenizer uses them to separate question and context."""
    framework = framework_of(saved(architecture), kind="question-answering")
    graph = framework.export(tmp_path / "1")
    assert [tensor.name for tensor in graph.inputs] == inputs
    assert [(output.name, output.shape) for output in graph.outputs] == [
        ("start_logits", (-1,)),
        ("end_logits", (-1,)),
    ]
    tokens = framework.tokenize(QUESTIONS)
    assert_graph_answers(framework, graph, tokens)
    if "token_type_ids" in inputs:
        one_type = tokens | {"token_type_ids": tokens["token_type_ids"] * 0}
        answers = [framework.answer(row)["start_logits"] for row in (one_type, tokens)]
        assert np.abs(answers[0] - answers[1]).max() > 0.01


@pytest.mark.soak
@pytest.mark.parametrize("architecture", ["MPNetModel", "T5EncoderModel"])
def test_feature_extraction(saved, tmp_path, architecture):
    """T5's attention is exported unfused, because the fused form cannot be decomposed."""
    framework = framework_of(saved(architecture), kind="feature-extraction")
    graph = framework.export(tmp_path / "1")
    assert [(output.name, output.shape) for output in graph.outputs] == [("last_hidden_state", (-1, 32))]
    tokens = framework.tokenize(TEXTS)
    assert_graph_answers(framework, graph, tokens)
    assert not framework.answer(tokens)["last_hidden_state"][tokens["attention_mask"] == 0].any()


def test_an_encoder_is_found_in_a_model_with_a_decoder(saved):
    framework = framework_of(saved("BartModel", **BART), kind="feature-extraction")
    assert type(framework.head.encoder).__name__ == "BartEncoder"


@pytest.mark.parametrize(
    ("architecture", "kind", "value"),
    [
        ("BertModel", "text-classification", "classifier.bias, classifier.weight"),
        ("BartModel", "token-classification", "no bart model"),
    ],
)
def test_a_model_of_another_task(saved, architecture, kind, value):
    with pytest.raises(ExportError) as caught:
        framework_of(saved(architecture, **(BART if "Bart" in architecture else {})), kind=kind)
    assert value in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ('"model_type": "bert"', '"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}', "Python code"),
        ('"2": "cross"', '"7": "cross"', "[0, 1, 7]"),
    ],
    ids=["code", "labels"],
)
def test_a_config_that_is_rejected(saved, tmp_path, old, new, value):
    folder = shutil.copytree(saved("BertForSequenceClassification", labels=LABELS), tmp_path / "m")
    (folder / "config.json").write_text((folder / "config.json").read_text().replace(old, new))
    (folder / "own.py").write_text("raise SystemExit('this ran')")
    with pytest.raises(ExportError) as caught:
        framework_of(folder, kind="text-classification")
    assert value in str(caught.value)


def test_a_tokenizer_without_fast_form(saved, monkeypatch):
    import transformers

    slow = type("Slow", (), {"is_fast": False, "pad_token_id": 0})
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: slow())
    with pytest.raises(ExportError, match="no fast"):
        framework_of(saved("BertModel"), kind="feature-extraction")
