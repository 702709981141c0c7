"""The peers answer each request with its own rows, however they batch."""

import asyncio
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from benchmarks.peers.batching import Batcher
from benchmarks.peers.engines import Array, Texts
from benchmarks.peers.forms import Form

WORDS = {"[PAD]": 0, "a": 1, "b": 2, "c": 3}


class Doubling:
    """An engine that rejects negative rows and notes its batches."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes

    def compute(self, rows: Sequence[float]) -> Array:
        self.sizes.append(len(rows))
        if min(rows) < 0:
            raise ValueError("a negative row")
        return np.array(rows) * 2


def load_doubling() -> Doubling:
    return Doubling([])


async def send(batcher: Batcher, requests: Sequence[Sequence[float]]) -> list[Array | BaseException]:
    await batcher.start()
    return await asyncio.gather(*map(batcher.compute, requests), return_exceptions=True)


@pytest.mark.parametrize(
    "form", [Form(), Form(workers=1), Form(workers=0), Form(most=1), Form(isolated=True, workers=1)], ids=str
)
def test_every_request_gets_its_own_rows(form):
    requests = [[float(number)] * (1 + number % 3) for number in range(50)]
    answers = asyncio.run(send(Batcher(load_doubling, form), requests))
    assert [list(answer) for answer in answers] == [[2 * row for row in rows] for rows in requests]


def test_requests_that_wait_share_a_batch():
    sizes: list[int] = []
    asyncio.run(send(Batcher(partial(Doubling, sizes), Form(workers=1, most=16)), [[1.0]] * 50))
    assert max(sizes) == 16
    assert sum(sizes) == 50


def test_a_failed_batch_fails_its_requests_and_no_others():
    batcher = Batcher(load_doubling, Form(workers=1, most=1))
    good, bad, other = asyncio.run(send(batcher, [[1.0], [-1.0], [3.0]]))
    assert (list(good), list(other)) == ([2.0], [6.0])
    assert isinstance(bad, ValueError)


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("group", [1, 2, 8])
def test_texts_keep_their_order(tmp_path, group, sort):
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[PAD]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    padded: list[int] = []

    def graph(ids: Array, mask: Array) -> Array:
        padded.append(int((mask == 0).sum()))
        return np.stack([(ids * mask).sum(1), mask.sum(1)], axis=1).astype(np.float32)

    engine = Texts(graph, tmp_path, Form(group=group, sort=sort))
    answers = engine.compute(["a b c a", "c", "b b b b b", "a a"])
    assert answers.tolist() == [[7, 4], [3, 1], [10, 5], [2, 2]]
    assert len(padded) == -(-4 // group)
    assert (sum(padded) == 0) == (group == 1)


def test_a_form_survives_the_command_line():
    form = Form(servers=2, workers=1, group=32, sort=False)
    assert Form.parse(form.to_json()) == form
