"""Contradictions within `batching` and `triton`, each with its line and remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.model_build.repository.tiny_repositories import a_model
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Record
from tritonstack.spec.models.triton_options import Batching

ENGINE = "{kind: onnx, format: tensorrt}"
TEXT = "{kind: text-embedding}"
VLLM = "{kind: vllm}"
PIPELINE = "{kind: ensemble, steps: [{model: a}, {model: b}]}"

REJECTED: list[tuple[str, dict[str, str], str]] = [
    ("{kind: onnx}", {"batching": "{preferred_sizes: [2, 2]}"}, "preferred_sizes.1: duplicate 2"),
    (
        "{kind: onnx}",
        {"batching": "{max_batch: 0, queue_delay_us: 5}"},
        "queue_delay_us: .*without a batch dim",
    ),
    (
        "{kind: onnx}",
        {"batching": "{queue_delay_us: 5, queue: {max_waiting: 7}}"},
        "queue_delay_us: with `queue`, Triton's dynamic batcher loses throughput",
    ),
    (
        "{kind: onnx}",
        {"batching": "{queue_delay_us: 5, priorities: {levels: 2, default: 1}}"},
        "queue_delay_us: with `priorities`",
    ),
    (
        "{kind: onnx}",
        {"batching": "{dynamic: false, queue_delay_us: 5}"},
        "queue_delay_us: .*`dynamic: false`",
    ),
    (
        "{kind: onnx}",
        {"batching": "{dynamic: false, keep_order: true}"},
        "keep_order: it requires the dynamic",
    ),
    (
        "{kind: onnx}",
        {"batching": "{dynamic: false, priorities: {levels: 2, default: 1}}"},
        "batching.priorities: ",
    ),
    (
        "{kind: onnx}",
        {"batching": "{queue: {on_timeout: delay}}"},
        "queue.on_timeout: on_timeout has no effect",
    ),
    ("{kind: onnx}", {"batching": "{ragged: [ids]}"}, "batching.ragged: only Python models"),
    ("{kind: python}", {"batching": "{ragged: [ids, ids]}"}, "ragged.1: duplicate input 'ids'"),
    ("{kind: onnx}", {"triton": "{instances: [{gpus: [1, 1]}]}"}, "instances.0.gpus: duplicate GPU"),
    (
        "{kind: onnx}",
        {"precision": "int8", "triton": "{instances: [{device: gpu}]}"},
        "instances.0.device: .*CPUs only",
    ),
    (ENGINE, {"triton": "{instances: [{device: cpu}]}"}, "instances.0.device: TensorRT runs on GPUs"),
    ("{kind: onnx}", {"triton": '{instances: [{profiles: ["0"]}]}'}, "profiles: only TensorRT engines"),
    (
        ENGINE,
        {"triton": '{instances: [{profiles: ["1"]}]}'},
        "profiles.0: expected a profile from 0 to 0, got '1'",
    ),
    (
        ENGINE,
        {"triton": "{instances: [{profiles: [fast]}]}"},
        "profiles.0: expected a profile from 0 to 0, got 'fast'",
    ),
    (TEXT, {"triton": "{sequences: {}}"}, "triton.sequences: .*are stateless"),
    (
        "{kind: python}",
        {"batching": "{dynamic: true}", "triton": "{sequences: {}}"},
        "batching.dynamic: .*exclude each other",
    ),
    (
        "{kind: python}",
        {"batching": "{preferred_sizes: [2]}", "triton": "{sequences: {}}"},
        "preferred_sizes: the queue does not apply to sequences with `strategy: direct`",
    ),
    (
        "{kind: python}",
        {"batching": "{queue: {max_waiting: 2}}", "triton": "{sequences: {strategy: oldest}}"},
        "batching.queue: the queue does not apply",
    ),
    (
        "{kind: python}",
        {"triton": "{sequences: {max_candidates: 4}}"},
        "max_candidates: with `strategy: direct`",
    ),
    (
        "{kind: python}",
        {"triton": "{sequences: {start: a, end: a}}"},
        "sequences.end: the input 'a' already has another role",
    ),
    ("{kind: python}", {"triton": "{sequences: {}, warm_up: true}"}, "triton.warm_up: warm-up requests"),
    (
        "{kind: python, calls: [a]}",
        {"triton": "{warm_up: true}"},
        "triton.warm_up: Triton warms the model up",
    ),
    ("{kind: python, calls: [a]}", {"triton": "{sequences: {}}"}, "triton.sequences: .*cannot keep state"),
    (
        "{kind: python}",
        {"triton": "{sequences: {}, response_cache: true}"},
        "response_cache: .*stateful model",
    ),
    (VLLM, {"triton": "{response_cache: true}"}, "response_cache: .*streamed"),
    ("{kind: onnx}", {"triton": "{versions: {}}"}, "triton.versions: .*got none"),
    ("{kind: onnx}", {"triton": "{versions: {latest: 1, all: true}}"}, "got `latest` .* and `all`"),
    ("{kind: onnx}", {"triton": "{versions: {specific: [1, 3]}}"}, "specific.1: version 3 does not exist"),
    ("{kind: python}", {"triton": "{optimization: {graph_level: 1}}"}, "graph_level: only ONNX Runtime"),
    ("{kind: onnx}", {"triton": "{optimization: {cuda_graphs: true}}"}, "cuda_graphs: only TensorRT"),
    (
        "{kind: python}",
        {"triton": "{parameters: {EXECUTION_ENV_PATH: x}}"},
        "EXECUTION_ENV_PATH: the build sets",
    ),
    (
        PIPELINE,
        {"batching": "{max_batch: 2, queue_delay_us: 1}"},
        "batching.queue_delay_us: an ensemble only routes",
    ),
    (
        PIPELINE,
        {"triton": "{warm_up: true, response_cache: true}"},
        "triton.warm_up: an ensemble only routes",
    ),
]


@pytest.mark.parametrize(("recipe", "blocks", "complaint"), REJECTED)
def test_incompatible_blocks_are_rejected(
    tmp_path: Path, recipe: str, blocks: dict[str, str], complaint: str
) -> None:
    with pytest.raises(InvalidFilesError) as caught:
        a_model(tmp_path, recipe=recipe, **blocks)
    (violation,) = caught.value.violations
    assert re.search(complaint, f"{violation.field}: {violation.message}"), str(violation)
    assert violation.remedy
    assert violation.line is not None
    assert violation.line >= 4


def test_all_changes_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidFilesError) as caught:
        a_model(
            tmp_path,
            batching="{dynamic: false, queue_delay_us: 5, preferred_sizes: [2, 2]}",
            triton="{versions: {specific: [3]}, optimization: {cuda_graphs: true}}",
        )
    assert len(caught.value.violations) == 5


def test_all_fields_of_the_queue_are_known() -> None:
    """A new field of batching needs a rule, or an entry here that it needs none."""
    assert issubclass(Batching, Record)
    assert set(Batching.model_fields) == {
        *("max_batch", "dynamic", "queue_delay_us", "preferred_sizes"),
        *("keep_order", "ragged", "priorities", "queue"),
    }
