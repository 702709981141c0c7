"""What a repository's Python models need of shared memory, and what a full request weighs.

Triton's Python backend hands tensors to each copy of a model through memory that both processes see: all
inputs of a batch lie there together with all outputs of it. Every copy has a region of its own, which begins
at a default size and grows as it must, and never shrinks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.manifests import ELEMENT_BYTES, TensorSpec
from model_build.repository.config import CONFIG_NAME, datatype_name, read_config

Array = NDArray[Any]
FIRST_REGION_BYTES = 16 << 20
"""What `serve` gives every copy of a Python model from the beginning."""
PER_TENSOR_BYTES = 512
"""The records that describe one tensor of one request: shape, name, place, and what the allocator adds."""
LENGTH_BYTES = 4
"""What stands before each text."""


@dataclass(frozen=True)
class Observed:
    """The largest things that a model was asked and answered while it was checked, a row each."""

    row_bytes: Mapping[str, int]
    """By tensor."""
    varying: int
    """The largest size that varies: what a dimension of -1 counts as in a tensor that nobody saw."""


def observe(requests: Iterable[Mapping[str, Array]], *, batched: bool = True) -> Observed:
    """Look at requests and answers, whose first dimension is the batch where they are batched."""
    heaviest: dict[str, int] = {}
    varying = 1
    for arrays in requests:
        for name, array in arrays.items():
            rows = array if batched else array[None]
            for row in rows:
                heaviest[name] = max(heaviest.get(name, 0), tensor_bytes(row))
                varying = max(varying, *np.shape(row), _longest_text(row))
    return Observed(heaviest, varying)


def tensor_bytes(array: Array) -> int:
    """What an array weighs in Triton's protocol."""
    if array.dtype != np.object_:
        return int(array.nbytes)
    return sum(LENGTH_BYTES + len(_encoded(item)) for item in array.flat)


def batch_bytes(tensors: Sequence[TensorSpec], *, max_batch: int, observed: Observed) -> int:
    """What these tensors weigh together in the largest batch."""
    return max(max_batch, 1) * sum(_row_bytes(tensor, observed) for tensor in tensors)


def shared_memory_bytes(repository: Path, observed: Observed) -> int:
    """What all copies of a repository's Python models need together; 0 where there are none."""
    return sum(
        _copies(config) * max(FIRST_REGION_BYTES, _region_bytes(config, observed))
        for file in sorted(repository.glob(f"*/{CONFIG_NAME}"))
        if (config := read_config(file)).backend == "python"
    )


def _region_bytes(config: Any, observed: Observed) -> int:
    tensors = [
        TensorSpec(name=tensor.name, datatype=datatype_name(tensor.data_type), shape=tuple(tensor.dims))
        for tensor in (*config.input, *config.output)
    ]
    # At worst each row of a batch came in a request of its own.
    rows: int = max(config.max_batch_size, 1)
    weight = batch_bytes(tensors, max_batch=config.max_batch_size, observed=observed)
    return weight + rows * len(tensors) * PER_TENSOR_BYTES


def _copies(config: Any) -> int:
    """Copies on the processor count once, those on GPUs for each GPU that is named."""
    return sum(max(group.count, 1) * max(len(group.gpus), 1) for group in config.instance_group) or 1


def _row_bytes(tensor: TensorSpec, observed: Observed) -> int:
    if tensor.name in observed.row_bytes:
        return observed.row_bytes[tensor.name]
    elements = math.prod(observed.varying if size == -1 else size for size in tensor.shape)
    each = ELEMENT_BYTES[tensor.datatype] + (observed.varying if tensor.datatype == "BYTES" else 0)
    return elements * each


def _longest_text(row: Array) -> int:
    if row.dtype != np.object_:
        return 1
    return max((len(_encoded(item)) for item in row.flat), default=1)


def _encoded(item: object) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()
