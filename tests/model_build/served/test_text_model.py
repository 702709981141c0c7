"""The tokenizer and the graph in one model, called as Triton does."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from model_build.data import ExportedGraph
from model_build.exporters.texts import TextFramework
from tests.model_build.served.loading import fail_to_tokenize, load_served
from tests.model_build.served.loading import text_request as request

WORDS = ("the", "a", "man", "girl", "is", "carrying", "eating", "food", "baby", "carts", "woods", "two")


def load(
    graph: ExportedGraph, framework: TextFramework, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    shutil.copytree(graph.file.parent, folder / "1")
    (folder / "1" / "tokenizer.json").write_text(framework.served_tokenizer())
    return load_served("text_model", folder, monkeypatch, inputs=("TEXT",), outputs=("embedding",))


@pytest.fixture
def model(
    tiny_graph: ExportedGraph, framework: TextFramework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    return load(tiny_graph, framework, tmp_path, monkeypatch)


def texts_of_many_lengths(count: int) -> list[str]:
    random = np.random.default_rng(1)
    return [" ".join(random.choice(WORDS, random.integers(1, 40))) for _ in range(count)]


def expected(framework: TextFramework, text: str) -> np.ndarray:
    return framework.answer(framework.tokenize([text]))["embedding"]


def test_each_text_gets_its_own_answer(model, framework):
    texts = texts_of_many_lengths(50)
    answers = model.execute([request(*texts[:1]), request(*texts[1:7]), request(*texts[7:])])
    assert [answer.outputs["embedding"].shape[0] for answer in answers] == [1, 6, 43]
    rows = np.concatenate([answer.outputs["embedding"] for answer in answers])
    np.testing.assert_allclose(
        rows, np.concatenate([expected(framework, text) for text in texts]), rtol=1e-3, atol=1e-5
    )


def test_small_batches_have_similar_lengths(model, monkeypatch):
    shapes: list[tuple[int, int]] = []
    run = model.session.run

    def noting(outputs: list[str], inputs: dict[str, np.ndarray]) -> Any:
        shapes.append(inputs["input_ids"].shape)
        return run(outputs, inputs)

    monkeypatch.setattr(model, "session", SimpleNamespace(run=noting))
    texts = texts_of_many_lengths(64)
    model.execute([request(text) for text in texts])
    computed = sum(rows * length for rows, length in shapes)
    lengths = [len(row) for row in model.tokenizer.encode_batch(texts)]
    assert computed < 1.15 * sum(lengths) < len(lengths) * max(lengths)
    assert all(rows * length <= model.most_tokens or rows == 1 for rows, length in shapes)


def test_long_texts_run_alone(model):
    code = sys.modules[type(model).__module__]
    assert list(code.small_batches([300, 5, 400, 6], 128)) == [[1, 3], [0], [2]]


def test_threads_of_the_endpoint_are_used(tiny_graph, framework, tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    model = load(tiny_graph, framework, tmp_path, monkeypatch)
    assert model.session.get_session_options().intra_op_num_threads == 3
    assert model.most_tokens == 3 * 128


@pytest.mark.parametrize(
    ("cores", "instances", "allowed", "threads"),
    [(2, 2, "2", 1), (2, 2, "", 1), (16, 2, "8", 8), (16, 2, "4", 4), (1, 4, "4", 1)],
)
def test_instances_share_the_cores_of_a_small_machine(model, monkeypatch, cores, instances, allowed, threads):
    """A laptop may have fewer cores than the instance type for which the endpoint sets the threads."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    assert sys.modules[type(model).__module__].threads_per_instance(instances) == threads


def test_bad_request_does_not_fail_other_requests(model, framework):
    before, bad, after = model.execute([request("a man"), request("fine", b"\xff\xfe"), request("food")])
    assert (before.error, after.error) == (None, None)
    assert "not UTF-8" in bad.error
    np.testing.assert_allclose(after.outputs["embedding"], expected(framework, "food"), rtol=1e-3, atol=1e-5)


def test_tokenizer_errors_concern_one_request(model, framework, monkeypatch):
    fail_to_tokenize(model, "unknown", monkeypatch)
    good, bad = model.execute([request("a man"), request("unknown")])
    assert "no token" in bad.error
    np.testing.assert_allclose(good.outputs["embedding"], expected(framework, "a man"), rtol=1e-3, atol=1e-5)
