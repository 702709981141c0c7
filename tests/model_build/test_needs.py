"""What a full request weighs, and what Python models need of shared memory for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catalog.manifests import TensorSpec
from catalog.triton_options import Batching, InstanceGroup, TritonOptions
from model_build.repository.needs import (
    FIRST_REGION_BYTES,
    PER_TENSOR_BYTES,
    batch_bytes,
    observe,
    shared_memory_bytes,
    tensor_bytes,
)
from model_build.repository.parts import add_python_model
from tests.model_build.repositories import IDS, a_graph

TEXT = TensorSpec(name="TEXT", datatype="BYTES", shape=(1,))


@pytest.mark.parametrize(
    ("array", "size"),
    [
        (np.zeros((2, 3), np.float32), 24),
        (np.zeros(5, np.bool_), 5),
        (np.array(["né", b"abc"], np.object_), 4 + 3 + 4 + 3),
        (np.zeros((0,), np.int64), 0),
    ],
)
def test_what_tensors_weigh(array: np.ndarray, size: int) -> None:
    assert tensor_bytes(array) == size


def test_the_largest_row_of_each_tensor_is_seen() -> None:
    seen = observe(
        [
            {"TEXT": np.array([["abc"], ["abcdefg"]], np.object_)},
            {"ids": np.zeros((1, 12), np.int64), "TEXT": np.array([["x"]], np.object_)},
        ]
    )
    assert dict(seen.row_bytes) == {"TEXT": 11, "ids": 96}
    assert seen.varying == 12


def test_a_tensor_that_nobody_saw_counts_by_the_largest_size() -> None:
    seen = observe([{"TEXT": np.array([["abcdefg"]], np.object_)}])
    assert batch_bytes([TEXT, IDS], max_batch=4, observed=seen) == 4 * (11 + 7 * 8)
    assert batch_bytes([TEXT], max_batch=0, observed=seen) == 11


def python_repository(tmp_path: Path, *, copies: int = 1, max_batch: int = 8) -> Path:
    (tmp_path / "code.py").write_text("")
    add_python_model(
        tmp_path / "repository",
        name="cut",
        code=tmp_path / "code.py",
        inputs=[TEXT],
        outputs=[IDS],
        batching=Batching(max_batch=max_batch),
        triton=TritonOptions(instances=(InstanceGroup(count=copies),)),
    )
    return tmp_path / "repository"


def test_each_copy_has_a_region_that_begins_large(tmp_path: Path) -> None:
    seen = observe([{"TEXT": np.array([["abc"]], np.object_)}])
    assert shared_memory_bytes(python_repository(tmp_path, copies=3), seen) == 3 * FIRST_REGION_BYTES


def test_large_batches_need_more(tmp_path: Path) -> None:
    row = {"TEXT": np.array([["x" * 1_000_000]], np.object_), "ids": np.zeros((1, 500_000), np.int64)}
    needed = shared_memory_bytes(python_repository(tmp_path), observe([row]))
    assert needed == 8 * (1_000_004 + 4_000_000) + 8 * 2 * PER_TENSOR_BYTES


def test_graphs_need_none(tmp_path: Path) -> None:
    from catalog.targets import Target
    from model_build.repository.parts import add_graph_model

    add_graph_model(
        tmp_path / "repository",
        name="run",
        graph=a_graph(tmp_path / "graph"),
        batching=Batching(),
        triton=TritonOptions(),
        target=Target("cpu"),
    )
    assert shared_memory_bytes(tmp_path / "repository", observe([])) == 0
