"""The serving benchmark: what counts as a right answer, as the best peer, and as a goal that is met."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.peers.forms import Form
from benchmarks.serving.goals import Goal, Row, outcomes
from benchmarks.serving.load import Reference, Round, Server, raw_request
from benchmarks.serving.peers import Trial, best
from benchmarks.serving.report import failures
from benchmarks.serving.requests import Body, binary_bodies, number_bodies, spread, text_bodies, texts

ANSWERS = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
ROUND = Round(rate=100, p50_ms=10, p99_ms=20, processor_ms=1, errors=0)


def test_answers_close_to_the_framework_are_right():
    reference = Reference(ANSWERS, cosine=0.999, absolute=0.01)
    assert [reference.difference(row, ANSWERS[row] + 1e-4) for row in range(4)] == [None] * 4


@pytest.mark.parametrize(
    ("answer", "difference"),
    [
        (ANSWERS[1], "cosine"),
        (ANSWERS[0][:8], "8 numbers, expected 16"),
        (ANSWERS[0] + 0.05, "off by 0.05"),
        (ANSWERS[0] * np.nan, "cosine nan"),
    ],
)
def test_other_answers_are_wrong(answer, difference):
    assert (Reference(ANSWERS, cosine=0.99, absolute=0.01).difference(0, answer) or "").startswith(difference)


def test_the_answer_to_another_request_is_wrong_even_if_all_answers_are_alike():
    alike = 1 + ANSWERS * 1e-3
    reference = Reference(alike, cosine=0.99)
    assert reference.difference(0, alike[0]) is None
    assert "another request" in (reference.difference(0, alike[1]) or "")


def trial(form: Form, **figures: float) -> Trial:
    return Trial(form, replace(ROUND, **figures))


def test_the_fastest_peer_wins_and_p99_decides_between_equals():
    slow = trial(Form(group=1), rate=90, p99_ms=1)
    steady = trial(Form(group=4), rate=98, p99_ms=15)
    uneven = trial(Form(group=8), rate=100, p99_ms=900)
    assert best([slow, uneven, steady], users=200) is steady


def test_for_one_user_the_lowest_median_wins():
    quick, busy = trial(Form(threads=2), rate=50, p50_ms=5), trial(Form(), rate=900, p50_ms=6)
    assert best([busy, quick], users=1) is quick


def rows(**rates: float) -> list[Row]:
    return [
        Row(
            name,
            "backend",
            "",
            200,
            [replace(ROUND, rate=rate * round_, p99_ms=rate) for round_ in (1, 2, 3)],
        )
        for name, rate in rates.items()
    ]


def test_goals_compare_within_each_round():
    measured = rows(ours=300, peer=200)
    (outcome,) = outcomes([Goal("ours", "peer", throughput=1.5)], measured, users=200)
    assert (outcome.ratio, outcome.processor, outcome.met) == (1.5, 1.0, True)
    (outcome,) = outcomes([Goal("ours", "peer", throughput=1.51)], measured, users=200)
    assert not outcome.met


def test_latencies_must_stay_below_their_threshold():
    measured = rows(ours=75, peer=100)
    met = [
        outcome.met
        for limit in (0.76, 0.74)
        for outcome in outcomes([Goal("ours", "peer", p99=limit)], measured, 200)
    ]
    assert met == [True, False]


def test_a_goal_without_its_contestants_is_an_error():
    with pytest.raises(KeyError):
        list(outcomes([Goal("ours", "nobody", throughput=1)], rows(ours=1), users=200))


def test_requests_carry_their_tensors():
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensors = [json.loads(body.data)["inputs"][0] for body in number_bodies("x", numbers)]
    assert [tensor["shape"] for tensor in tensors] == [[1, 3]] * 2
    assert [tensor["data"] for tensor in tensors] == numbers.tolist()


def test_binary_requests_carry_their_tensors_after_the_header():
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    bodies = binary_bodies("x", numbers)
    parts = [(body.data, int(body.content_type.rpartition("=")[2])) for body in bodies]
    tensors = [json.loads(data[:size])["inputs"][0] for data, size in parts]
    assert [tensor["parameters"] for tensor in tensors] == [{"binary_data_size": 12}] * 2
    sent = [np.frombuffer(data[size:], np.float32).tolist() for data, size in parts]
    assert sent == numbers.tolist()


def test_every_run_sends_the_same_texts():
    assert texts() == texts()
    bodies = text_bodies(texts())
    assert len({body.data for body in bodies}) > 1900
    assert spread(bodies, 4) == [0, 500, 1000, 1500]


def test_requests_are_sent_with_their_length_and_further_headers():
    server = Server(
        "name", "backend", 1, "http://127.0.0.1:99/endpoints/a/invocations", sign=lambda _: {"X-A": "b"}
    )
    head, _, body = raw_request(server, Body(b"\0\r\n\r\n\xff", "a/b")).partition(b"\r\n\r\n")
    assert body == b"\0\r\n\r\n\xff"
    assert head.decode().split("\r\n") == [
        "POST /endpoints/a/invocations HTTP/1.1",
        "Host: 127.0.0.1:99",
        "Content-Type: a/b",
        "X-A: b",
        "Content-Length: 6",
    ]


def test_errors_and_wrong_answers_fail_a_run():
    rounds = [ROUND, replace(ROUND, errors=2), replace(ROUND, wrong=("answer 3: cosine 0.1",))]
    result = {
        "rows": [
            Row(name, "", "", 200, runs).to_json() for name, runs in (("good", [ROUND]), ("bad", rounds))
        ]
    }
    assert list(failures("minilm", result)) == [
        "minilm: bad, 200 users: 2 errors",
        "minilm: bad, 200 users: answer 3: cosine 0.1",
    ]
    assert list(failures("minilm", {"failure": "Traceback\nRuntimeError: no"})) == [
        "minilm: RuntimeError: no"
    ]
