"""Warm-up requests: what a model is asked before it counts as ready, so that its first caller does not wait.

Triton repeats the tensors of one row as often as a sample's batch has rows. They lie in files below
<model>/warmup/ in the protocol's raw form: numbers in row-major order, texts each behind their length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model_build.repository.config import data_type
from tritonstack.base.byte_tensors import BYTES, raw_bytes
from tritonstack.records.manifests import TensorSpec

Array = NDArray[Any]
FOLDER = "warmup"
"""Triton looks for the files there and nowhere else."""


def add_warm_up(
    config: Any, folder: Path, inputs: Sequence[TensorSpec], row: Mapping[str, Array] | None
) -> None:
    """Ask the model once alone and once at its largest batch before it is ready.

    `row` is the first test input as this model's tensors, without the batch dimension. Zeros of the smallest
    shape stand for it where a model has no such input of its own.
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
    """The first row of a request, without the batch dimension where there is one."""
    return {name: np.asarray(array)[0] if max_batch else np.asarray(array) for name, array in inputs.items()}


def _samples(max_batch: int) -> list[tuple[str, int]]:
    return [("alone", 1), ("largest batch", max_batch)] if max_batch > 1 else [("alone", 1)]


def _raw(array: Array, datatype: str) -> bytes:
    dtype = np.object_ if datatype == BYTES else None
    return raw_bytes(np.asarray(array, dtype=dtype)).tobytes()
