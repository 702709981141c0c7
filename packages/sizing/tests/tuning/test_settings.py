"""Which settings of a model are searched, with which values, and why others are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tritonstack.base.yaml import load_yaml
from tritonstack.files.model.model import ModelSpec
from tritonstack_sizing.tuning.settings import (
    Part,
    Setting,
    built_settings,
    has_small_batches,
    served_settings,
    thread_setting,
)

TEXTS = {
    "name": "mood",
    "description": "A model.",
    "source": "file://weights",
    "recipe": {"kind": "text-classification"},
    "test_inputs": ["a"],
}
CODE = {
    "name": "twice",
    "description": "A model.",
    "recipe": {"kind": "python"},
    "test_inputs": [{"inputs": {"x": [1.0]}, "outputs": {"y": [2.0]}}],
}
DECOUPLED = {"kind": "python", "decoupled": True}
STREAMED = [{"inputs": {"x": [1.0]}, "responses": [{"y": [2.0]}]}]
PYTHON = Part("model", "python", 2)
STAND_IN = Part("model", "onnxruntime", 2)


def spec(base: dict[str, Any], **changes: Any) -> ModelSpec:
    return ModelSpec.model_validate_json(json.dumps({**base, **changes}))


def searched(
    model: ModelSpec, part: Part | None = PYTHON, **machine: Any
) -> tuple[dict[str, Any], list[str]]:
    """Return values by field, and what is skipped with its reason."""
    options: dict[str, Any] = {"cores": 4, "real": False, "cores_transfer": True, **machine}
    settings, skipped = served_settings(model, part, **options)
    values = {setting.field: setting.dimension.values for setting in settings}
    return values, [f"{setting.field}: {setting.reason}" for setting in skipped]


def test_values_include_the_present_one_and_rows_are_never_fewer() -> None:
    values, skipped = searched(spec(TEXTS, batching={"max_batch": 24, "queue_delay_us": 300}))
    assert values == {
        "instances": (1, 2, 4, 8),
        "queue_delay_us": (0, 300, 1000, 5000),
        "max_batch": (24, 48),
        "batch_tokens": (64, 128, 256, 512),
    }
    assert skipped == []


def test_other_cores_leave_the_instances() -> None:
    values, skipped = searched(spec(CODE), cores_transfer=False)
    assert set(values) == {"queue_delay_us", "max_batch"}
    assert [line.partition(":")[0] for line in skipped] == ["instances"]


@pytest.mark.parametrize(
    ("model", "part", "reason"),
    [
        (spec(TEXTS), STAND_IN, "Python stand-in"),
        (spec(TEXTS), None, "no part of its own"),
        (spec(CODE, triton={"config": "own.pbtxt"}), PYTHON, "own.pbtxt has them"),
        (spec(CODE, triton={"sequences": {"start": "x"}}), PYTHON, "keeps state"),
        (spec(CODE, recipe=DECOUPLED, test_inputs=STREAMED), PYTHON, "several responses"),
    ],
)
def test_models_that_are_not_searched(model: ModelSpec, part: Part | None, reason: str) -> None:
    values, skipped = searched(model, part)
    assert values == {}
    assert len(skipped) == 1
    assert reason in skipped[0]


def test_nvidias_own_backend_is_searched() -> None:
    assert "instances" in searched(spec(TEXTS), STAND_IN, real=True)[0]


def test_queues_with_limits_have_no_delay_and_models_without_batches_no_larger_ones() -> None:
    limited = spec(CODE, batching={"queue": {"max_waiting": 9}})
    assert any(line.startswith("queue_delay_us: limits") for line in searched(limited)[1])
    assert set(searched(spec(CODE, batching={"dynamic": False}))[0]) == {"instances"}


@pytest.mark.parametrize(
    ("changes", "has"),
    [
        ({}, True),
        ({"precision": "int8"}, True),
        ({"precision": "auto"}, False),
        ({"recipe": {"kind": "text-classification", "one_model": False}}, False),
        ({"recipe": {"kind": "text-classification", "input": "tokens"}}, False),
        ({"recipe": {"kind": "token-classification"}}, False),
        ({"recipe": {"kind": "text-classification", "format": "torchscript"}}, False),
        ({"triton": {"parameters": {"intra_op_thread_count": "1"}}}, False),
    ],
)
def test_small_batches_need_one_model(changes: dict[str, Any], has: bool) -> None:
    assert has_small_batches(spec(TEXTS, **changes)) is has


def test_precision_and_layout() -> None:
    settings, skipped = built_settings(spec(TEXTS), real=False)
    (precision,) = settings
    dimension = precision.dimension
    assert (precision.field, dimension.values, dimension.ordered) == ("precision", ("fp32", "int8"), False)
    assert [setting.field for setting in skipped] == ["one_model", "precision: bf16"]
    fields = [setting.field for setting in built_settings(spec(TEXTS), real=True)[0]]
    assert fields == ["precision", "one_model"]
    assert built_settings(spec(TEXTS, precision="auto"), real=True)[0] == []
    assert built_settings(spec(CODE), real=True) == ([], [])


def test_threads_keep_a_number_that_is_written_down() -> None:
    assert thread_setting({}, 4).dimension.values == (None, 1, 2, 4)
    threads = thread_setting({"OMP_NUM_THREADS": "3"}, 4).dimension
    assert (threads.values, threads.start) == ((1, 2, 3, 4), 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "triton: {instances: [{count: 3}]}\n"),
        ("triton:\n  instances:\n    - count: 1  # one\n      device: cpu\n", None),
        ("triton: {instances: [{device: cpu}]}\n", "triton: {instances: [{device: cpu, count: 3}]}\n"),
    ],
)
def test_another_count_keeps_the_rest_of_a_group(text: str, expected: str | None) -> None:
    setting = Setting.of("mood", "instances")
    after = setting.edit(f"name: mood\n{text}", 3, file=Path("model.yaml"))
    expected = expected or text.replace("count: 1", "count: 3")
    assert after == f"name: mood\n{expected}"
    assert setting.change(load_yaml(f"name: mood\n{text}"), 3) == load_yaml(after)


def test_several_groups_of_instances_stay() -> None:
    groups = [{"count": 1}, {"count": 2, "device": "gpu"}]
    values, skipped = searched(spec(CODE, triton={"instances": groups}))
    assert "instances" not in values
    assert [line.partition(":")[0] for line in skipped] == ["instances"]
    assert "instances" in searched(spec(CODE, triton={"instances": groups[:1]}))[0]
