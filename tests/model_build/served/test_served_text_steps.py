"""The Python steps around text models, called as Triton does, compared with the framework's answers."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from model_build.exporters.texts import TextFramework, best_answer
from tests.model_build.frameworks import framework_of
from tests.model_build.served.loading import load_served
from tests.model_build.tiny import TEXTS
from tests.model_build.tiny_tasks import QUESTIONS, TOKEN_LABELS, save_text_model

PAIR = ("QUESTION", "CONTEXT")


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = save_text_model(tmp_path_factory.mktemp("reader"), "BertForQuestionAnswering")
    return framework_of(folder, "question-answering", max_length=24)


@pytest.fixture(scope="session")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tagger")
    save_text_model(folder, "BertForTokenClassification", labels=TOKEN_LABELS)
    return framework_of(folder, "token-classification", max_length=24)


def tensors(**columns: Any) -> dict[str, Any]:
    """Return a request of arrays, or of columns of bytes."""
    arrays = {
        name: values if isinstance(values, np.ndarray) else np.array([[text] for text in values], np.object_)
        for name, values in columns.items()
    }
    return {name: SimpleNamespace(as_numpy=lambda array=array: array) for name, array in arrays.items()}


def texts(*rows: str) -> dict[str, Any]:
    return tensors(TEXT=[row.encode() for row in rows])


def questions(*pairs: tuple[str, str]) -> dict[str, Any]:
    return tensors(QUESTION=[q.encode() for q, _ in pairs], CONTEXT=[c.encode() for _, c in pairs])


def tokenizer(
    framework: TextFramework,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    inputs: tuple[str, ...] = ("TEXT",),
    *,
    together: bool = False,
    **options: Any,
) -> Any:
    (folder / "1").mkdir()
    (folder / "1" / "tokenizer.json").write_text(framework.served_tokenizer())
    outputs = options.pop("outputs", (*framework.inputs, "offsets"))
    parameters = {"padding": "together"} if together else {}
    options |= {"inputs": inputs, "outputs": outputs, "parameters": parameters}
    return load_served("passage_tokenizer", folder, monkeypatch, **options)


def assert_same(outputs: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert list(outputs) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array)
        assert outputs[name].dtype == np.int64


def test_each_request_of_texts_is_padded_separately(tagger, tmp_path, monkeypatch):
    """The rows are tokens, so they must not depend on concurrent requests."""
    model = tokenizer(tagger, tmp_path, monkeypatch)
    long = " ".join(TEXTS * 3)
    alone, together = model.execute([texts(TEXTS[3]), texts(TEXTS[2], long, "")])
    assert_same(alone.outputs, tagger.tokenize([TEXTS[3]], extra=["offsets"]))
    assert_same(together.outputs, tagger.tokenize([TEXTS[2], long, ""], extra=["offsets"]))
    assert alone.outputs["input_ids"].shape[1] < together.outputs["input_ids"].shape[1] == 24


def test_pairs_are_padded_together_and_only_the_context_is_cut(reader, tmp_path, monkeypatch):
    model = tokenizer(reader, tmp_path, monkeypatch, PAIR, together=True)
    long = (QUESTIONS[0][0], QUESTIONS[0][1] * 4)
    short, cut = model.execute([questions(QUESTIONS[1]), questions(long, ("Who?", ""))])
    assert_same(cut.outputs, reader.tokenize([long, ("Who?", "")], extra=["offsets"]))
    expected = reader.tokenize([QUESTIONS[1], long], extra=["offsets"])
    assert_same(short.outputs, {name: array[:1] for name, array in expected.items()})
    question = reader.tokenize([("Who is eating?", "")])["attention_mask"].sum() - 1
    assert not cut.outputs["offsets"][0, :question].any()
    assert cut.outputs["token_type_ids"][0, question:].all()


def test_question_that_is_too_long_does_not_fail_other_requests(reader, tmp_path, monkeypatch):
    model = tokenizer(reader, tmp_path, monkeypatch, PAIR, together=True)
    endless = ("who " * 40, "A man.")
    broken = tensors(QUESTION=[b"\xff"], CONTEXT=[b"x"])
    before, bad, worse, after = model.execute(
        [questions(QUESTIONS[0]), questions(endless), broken, questions(QUESTIONS[1])]
    )
    assert (before.error, after.error) == (None, None)
    assert "QUESTION and CONTEXT" in bad.error
    assert "QUESTION is" in worse.error
    length = before.outputs["input_ids"].shape[1]
    assert_same(
        after.outputs,
        {name: array[1:, :length] for name, array in reader.tokenize(QUESTIONS, extra=["offsets"]).items()},
    )


def answerer(folder: Path, monkeypatch: pytest.MonkeyPatch, longest: int) -> Any:
    (folder / "1").mkdir()
    (folder / "1" / "answer.json").write_text(json.dumps({"max_answer_tokens": longest}))
    return load_served("answer_span", folder, monkeypatch)


@pytest.mark.parametrize("longest", [1, 3, 40])
def test_best_span_equals_a_step_by_step_search(tmp_path, monkeypatch, longest):
    model = answerer(tmp_path, monkeypatch, longest)
    random = np.random.default_rng(longest)
    context = "".join(chr(0x4E00 + place) for place in range(60))
    begins = np.sort(random.integers(0, 60, (6, 12)), axis=1)
    offsets = np.stack([begins, np.minimum(begins + random.integers(0, 4, begins.shape), 60)], axis=2)
    offsets[:, :3] = 0
    offsets[5] = 0  # nothing is left of this context
    starts, ends = random.normal(0, 5, (2, 6, 12)).astype(np.float32)
    request = tensors(start_logits=starts, end_logits=ends, offsets=offsets, CONTEXT=[context.encode()] * 6)
    (response,) = model.execute([request])
    assert response.error is None
    answers = response.outputs
    for row in range(6):
        text, score, begin, end = best_answer(
            context, starts=starts[row], ends=ends[row], offsets=offsets[row], max_answer_tokens=longest
        )
        assert answers["answer"][row, 0].decode() == text
        assert (answers["start"][row, 0], answers["end"][row, 0]) == (begin, end)
        assert answers["score"][row, 0] == pytest.approx(score, rel=1e-5)
    assert answers["answer"][5, 0] == b""
    assert [answers[name].dtype.name for name in ("score", "start", "end")] == ["float32", "int64", "int64"]


def test_an_invalid_context_fails_only_its_own_request(tmp_path, monkeypatch):
    numbers = np.zeros((1, 4), np.float32)
    offsets = np.array([[[0, 0], [0, 1], [1, 3], [0, 0]]])
    good = tensors(start_logits=numbers, end_logits=numbers, offsets=offsets, CONTEXT=["naïf".encode()])
    bad = tensors(start_logits=numbers, end_logits=numbers, offsets=offsets, CONTEXT=[b"\xff\xff\xff"])
    first, second = answerer(tmp_path, monkeypatch, 5).execute([bad, good])
    assert "UTF-8" in first.error
    assert second.outputs["answer"][0, 0] == b"n"


def test_tokens_have_the_datatypes_of_the_graph_and_hidden_ones_are_padded_together(
    tagger, tmp_path, monkeypatch
):
    """So that the next model can answer them as one batch."""
    options = {"outputs": ["input_ids", "attention_mask"], "data_type": "TYPE_INT32", "together": True}
    model = tokenizer(tagger, tmp_path, monkeypatch, **options)
    responses = model.execute([texts(text) for text in (TEXTS[0], "two men")])
    expected = tagger.tokenize([TEXTS[0], "two men"])
    for name in ("input_ids", "attention_mask"):
        array = np.concatenate([response.outputs[name] for response in responses])
        assert array.dtype == np.int32
        np.testing.assert_array_equal(array, expected[name])
