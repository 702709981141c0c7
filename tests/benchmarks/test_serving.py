"""The serving benchmark: what counts as a right answer, as the best peer, and as a goal that is met."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.serving.goals import Goal, Row, outcomes
from benchmarks.serving.load import Reference, Round
from benchmarks.serving.report import failures

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
