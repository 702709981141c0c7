"""Warm-up requests, which a model runs before it is ready.

Triton repeats the one-row tensors up to the sample's batch size. They are files in <model>/warmup/ in the
protocol's raw form: numbers in row-major order, strings with a length prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model_build.repository.config import data_type
from tritonstack.base.byte_tensors import BYTES, raw_bytes
from tritonstack.files.records.manifests import TensorSpec

Array = NDArray[Any]
FOLDER = "warmup"
"""Folder that Triton requires."""


def add_warm_up(
    config: Any, folder: Path, inputs: Sequence[TensorSpec], row: Mapping[str, Array] | None
) -> None:
    """Configure one request alone and one at the largest batch before the model is ready.

    `row` is the first test input as this model's tensors, without the batch dimension. Inputs that it lacks
    get zeros of the smallest shape.
    """
    files = [f"input-{number}" for number in range(len(inputs))]
    if row is not None:
        (folder / FOLDER).mkdir()
        for tensor, file in zip(inputs, files, strict=True):
            (folder / FOLDER / file).write_bytes(_raw(row[tensor.name], tensor.datatype))
    for name, batch in _samples(config.max_batch_size):
        sample = config.model_warmup.add(name=name, batch_size=batch)
        for tensor, file in zip(inputs, files, strict=True):
            meta = sample.inputs[tensor.name]
            meta.data_type = data_type(tensor.datatype)
            if row is None:
                meta.dims.extend(max(size, 1) for size in tensor.shape)
                meta.zero_data = True
            else:
                meta.dims.extend(row[tensor.name].shape)
                meta.input_data_file = file


def first_row(inputs: Mapping[str, Array], max_batch: int) -> dict[str, Array]:
    """Return the first row of a request, without any batch dimension."""
    return {name: np.asarray(array)[0] if max_batch else np.asarray(array) for name, array in inputs.items()}


def _samples(max_batch: int) -> list[tuple[str, int]]:
    return [("alone", 1), ("largest batch", max_batch)] if max_batch > 1 else [("alone", 1)]


def _raw(array: Array, datatype: str) -> bytes:
    dtype = np.object_ if datatype == BYTES else None
    return raw_bytes(np.asarray(array, dtype=dtype)).tobytes()
