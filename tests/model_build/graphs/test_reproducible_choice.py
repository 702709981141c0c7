"""`precision: auto` makes the same choice again on a busy machine."""

import pytest

from model_build.graphs import precision
from model_build.graphs.levels import BF16, FP32, INT8
from model_build.graphs.precision import LEAST_GAIN, Candidate, choose
from tests.model_build.graphs.test_levels import settle
from tests.model_build.tiny_graphs import answered, perceptron

LOOSE = {"cosine": 0.9, "absolute": 10.0}


@pytest.mark.parametrize("choice", ["fp32", "bf16", "int8"])
def test_a_recorded_choice_is_reused_without_timing(choice, tmp_path, monkeypatch):
    def untimed(*_: object, **__: object) -> None:
        raise AssertionError("the record makes timing unnecessary")

    monkeypatch.setattr(precision, "time_candidates", untimed)
    graph = perceptron(tmp_path / "graph")
    servable = settle(graph, answered(graph), precision="auto", accept=LOOSE, recorded=choice)
    (only,) = servable.candidates
    assert (only.name, only.kept) == (choice, True)
    assert "earlier build" in only.reason
    assert servable.precision == only.precision


def test_record_for_other_hardware_is_replaced_by_a_new_choice(tmp_path):
    graph = perceptron(tmp_path / "graph")
    servable = settle(graph, answered(graph), precision="auto", accept={"cosine": 0.9999999}, recorded="int8")
    assert [candidate.name for candidate in servable.candidates] == ["fp32", "bf16", "int8"]
    assert servable.precision == "fp32"


@pytest.mark.parametrize(
    ("milliseconds", "chosen"),
    [
        ((10.0, 9.0, 8.0), "fp32"),
        ((10.0, 10 / LEAST_GAIN, 7.0), "bf16"),
        ((10.0, 5.0, 4.9), "bf16"),
        ((10.0, 4.9, 5.0), "bf16"),
        ((10.0, 5.0, 5.0 / LEAST_GAIN), "int8"),
        ((10.0, 9.0, 5.0), "int8"),
    ],
)
def test_nearly_equal_candidates_are_ordered_by_a_fixed_rule(milliseconds, chosen):
    levels = (FP32, BF16, INT8)
    timed = [
        Candidate(level, latency_ms={"1x16": time}) for level, time in zip(levels, milliseconds, strict=True)
    ]
    assert choose(timed).level.name == chosen
