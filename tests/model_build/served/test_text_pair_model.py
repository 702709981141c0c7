"""Pairs of texts and the graph in one model, called as Triton does."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from model_build import served
from tests.model_build.graph_texts import save_graph
from tests.model_build.served.loading import load_served


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a model whose scores are the sums of the token ids and of the token types of a pair."""
    folder = tmp_path / "1"
    folder.mkdir()
    words = {word: place for place, word in enumerate(["[PAD]", "[SEP]", "a", "b", "c", "d"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[PAD]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A [SEP] $B:1", special_tokens=[("[SEP]", 1)]
    )
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    tokenizer.save(str(folder / "tokenizer.json"))
    text = """(int64[batch, n] input_ids, int64[batch, n] token_type_ids) => (int64[batch, 2] scores) {
        ids = ReduceSum(input_ids, axes)
        types = ReduceSum(token_type_ids, axes)
        scores = Concat<axis = 1>(ids, types)
    }"""
    save_graph(folder / "model.onnx", text, opset=18, axes=[1])
    monkeypatch.syspath_prepend(Path(served.__file__).parent)  # Triton appends the model's folder
    return load_served("text_pair_model", tmp_path, monkeypatch, outputs=("scores",))


def request(*pairs: tuple[bytes, bytes]) -> dict[str, Any]:
    return {
        name: SimpleNamespace(
            as_numpy=lambda place=place: np.array([[pair[place]] for pair in pairs], object)
        )
        for place, name in enumerate(("TEXT", "TEXT_PAIR"))
    }


def test_each_pair_gets_its_own_answer(model):
    first, second = model.execute([request((b"a b", b"c")), request((b"d", b"a a a"), (b"a", b""))])
    np.testing.assert_array_equal(first.outputs["scores"], [[2 + 3 + 1 + 4, 1]])
    np.testing.assert_array_equal(second.outputs["scores"], [[5 + 1 + 6, 3], [2 + 1, 0]])


def test_bad_text_does_not_fail_other_requests(model):
    before, bad, after = model.execute(
        [request((b"a", b"b")), request((b"a", b"\xff")), request((b"b", b"a"))]
    )
    assert "TEXT_PAIR" in bad.error
    np.testing.assert_array_equal(before.outputs["scores"], after.outputs["scores"])


def test_pairs_with_small_batches_of_another_size(model, tmp_path, monkeypatch):
    del model  # it wrote the files
    monkeypatch.setattr(Path, "exists", lambda path: True)  # text_pair_model.py, beside the code in artifacts
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    sized = load_served(
        "sized_text_model", tmp_path, monkeypatch, outputs=("scores",), parameters={"batch_tokens": "32"}
    )
    assert sized.most_tokens == 32
    (response,) = sized.execute([request((b"a b", b"c"))])
    assert response.error is None
    assert response.outputs["scores"].shape == (1, 2)
