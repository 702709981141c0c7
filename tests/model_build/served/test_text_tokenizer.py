"""The tokenizer's code, called as Triton does, with records instead of Triton's own classes."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from model_build.exporters.texts import TextFramework
from tests.model_build.served.loading import fail_to_tokenize, load_served
from tests.model_build.served.loading import text_request as request


def load(framework: TextFramework, folder: Path, monkeypatch: pytest.MonkeyPatch, **parameters: str) -> Any:
    (folder / "1").mkdir()
    (folder / "1" / "tokenizer.json").write_text(framework.served_tokenizer())
    return load_served("text_tokenizer", folder, monkeypatch, inputs=("TEXT",), parameters=parameters)


@pytest.fixture
def model(framework: TextFramework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return load(framework, tmp_path, monkeypatch)


@pytest.fixture
def grouping(framework: TextFramework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return load(framework, tmp_path, monkeypatch, padding="groups")


class Query(dict[str, Any]):
    """A request that receives its response from a sender."""

    def __init__(self, texts: tuple[str | bytes, ...], received: list[tuple[Any, Any]]) -> None:
        super().__init__(request(*texts))
        self.texts, self._received = texts, received

    def get_response_sender(self) -> Any:
        def send(response: Any, *, flags: int) -> None:
            assert flags == 1, "it is the only response"
            self._received.append((self, response))

        return SimpleNamespace(send=send)


def test_requests_are_tokenized_together_and_answered_separately(model):
    short, long = model.execute([request("a man"), request("eating food", "the girl is carrying a baby")])
    assert short.outputs["input_ids"].shape[0] == 1
    assert long.outputs["input_ids"].shape[0] == 2
    assert short.outputs["input_ids"].shape[1] == long.outputs["input_ids"].shape[1]
    assert short.outputs["input_ids"].dtype == np.int64
    used = int(short.outputs["attention_mask"].sum())
    plain = Tokenizer.from_str(model.tokenizer.to_str())
    plain.no_padding()
    assert short.outputs["input_ids"][0, :used].tolist() == plain.encode("a man").ids
    assert not short.outputs["input_ids"][0, used:].any()


def test_bad_request_does_not_fail_other_requests(model):
    before, bad, after = model.execute([request("a man"), request("fine", b"\xff\xfe"), request("food")])
    assert (before.error, after.error) == (None, None)
    assert "not UTF-8" in bad.error
    alone = model.execute([request("food")])[0]
    length = alone.outputs["input_ids"].shape[1]
    assert after.outputs["input_ids"][:, :length].tolist() == alone.outputs["input_ids"].tolist()


def test_groups_have_similar_lengths_and_are_sent_in_order(grouping):
    """The next model batches consecutive requests of one shape."""
    random, received = np.random.default_rng(1), []
    texts = [" ".join(["food"] * int(count)) for count in random.integers(1, 22, size=32)]
    queries = [Query((text,), received) for text in texts]
    assert grouping.execute(queries) is None
    assert sorted(query.texts for query, _ in received) == sorted((text,) for text in texts)
    shapes = [answer.outputs["input_ids"].shape for _, answer in received]
    assert shapes == sorted(shapes)
    plain = Tokenizer.from_str(grouping.tokenizer.to_str())
    used = 0
    for query, answer in received:
        ids = plain.encode(query.texts[0]).ids
        used += len(ids)
        assert answer.outputs["input_ids"][0, : len(ids)].tolist() == ids
        assert int(answer.outputs["attention_mask"].sum()) == len(ids)
    assert sum(length for _, length in shapes) < 1.25 * used


def test_each_request_in_groups_gets_its_own_answer_or_error(grouping):
    received: list[tuple[Any, Any]] = []
    queries = [Query(texts, received) for texts in (("a man", "eating food"), (b"\xff",), ("the girl",))]
    grouping.execute(queries)
    answers = {query.texts: answer for query, answer in received}
    assert "not UTF-8" in answers[(b"\xff",)].error
    assert answers["a man", "eating food"].outputs["input_ids"].shape[0] == 2
    assert answers[("the girl",)].error is None


def test_a_response_that_cannot_be_built_is_an_error_of_its_request(grouping, monkeypatch):
    """An exception after the first response would crash the Triton server."""
    code, received = sys.modules[type(grouping).__module__], []
    make = code.pb_utils.Tensor

    def failing(name: str, array: Any) -> Any:
        if len(array) == 2:
            raise MemoryError("out of memory")
        return make(name, array)

    monkeypatch.setattr(code.pb_utils, "Tensor", failing)
    queries = [Query(texts, received) for texts in (("a",), ("a man", "food"), ("the girl is carrying",))]
    assert grouping.execute(queries) is None
    errors = [answer.error or "" for _, answer in received]
    assert [bool(error) for error in errors] == [len(query.texts) == 2 for query, _ in received]
    assert "out of memory" in max(errors)
    assert len(received) == 3


def test_a_response_that_cannot_be_sent_does_not_affect_the_others(grouping, capsys, monkeypatch):
    received: list[tuple[Any, Any]] = []
    queries = [Query((text,), received) for text in ("a", "a man", "the girl is carrying")]

    def send(*_: Any, **__: Any) -> None:
        raise RuntimeError("no shared memory")

    monkeypatch.setattr(queries[1], "get_response_sender", lambda: SimpleNamespace(send=send))
    assert grouping.execute(queries) is None
    assert [query.texts for query, _ in received] == [("a",), ("the girl is carrying",)]
    assert "no shared memory" in capsys.readouterr().out


def test_older_backends_pad_all_requests_together(grouping):
    """Before Triton 24.06, only decoupled models have response senders."""
    answers = grouping.execute([request("a man"), request("the girl is carrying a baby")])
    assert len({answer.outputs["input_ids"].shape for answer in answers}) == 1


def test_a_single_request_needs_no_sender(grouping):
    (answer,) = grouping.execute([Query(("a man",), [])])
    assert answer.error is None


def test_long_requests_are_groups_of_their_own(grouping):
    code = sys.modules[type(grouping).__module__]
    assert list(code.groups([300, 5, 400, 6], [1, 1, 1, 2], 128)) == [[1, 3], [0], [2]]
    assert list(code.groups([5, 5], [20, 20], 128)) == [[0], [1]]


def test_tokenizer_errors_concern_one_request(model, monkeypatch):
    fail_to_tokenize(model, "unknown", monkeypatch)
    good, bad = model.execute([request("a man"), request("unknown")])
    assert (good.error, "no token" in bad.error) == (None, True)
