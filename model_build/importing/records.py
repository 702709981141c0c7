"""What an import is asked for, and what it makes."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model_build.inputs.inline import NUMPY_TYPES
from model_build.linting.findings import Finding, LintOptions
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.naming import NAME_PATTERN
from tritonstack.files.records.manifests import TensorSpec

# Write test inputs for a model that comes without any: seeded random values of the declared sizes. They show
# that the model loads and answers, not that its answers are right: no framework computes them.

INPUTS_FILE = "inputs.npz"
VALUES = "__values"
OFFSETS, LENGTHS = ("__offsets",), ("__lengths", "__nnzs")
"""Suffixes of the tensors that describe the rows of a ragged column: positions, or numbers of values."""
ROWS, ROW_LENGTHS = 2, (3, 2)
"""Rows of a request to a model without a batch dimension, and the lengths of their ragged lists."""
SIZE, BELOW = 4, 8
"""Size of other variable dimensions, and the upper bound of integers: small, because many are indices."""
LONGEST_INLINE = 256
"""Most values of a request that are written into model.yaml."""
_SEED = 20240917
_WORDS = ("a", "short", "text")


def given_inputs(file: Path, folder: Path) -> list[Mapping[str, Any]]:
    """Copy the user's .npz file beside model.yaml."""
    if not file.is_file():
        raise CommandLineError(f"{file}: file not found", remedy="name an .npz file")
    shutil.copyfile(file, folder / INPUTS_FILE)
    return [{"file": INPUTS_FILE}]


def example_inputs(tensors: Sequence[TensorSpec], max_batch: int, folder: Path) -> list[Mapping[str, Any]]:
    """Return test inputs for these tensors; large ones with texts or lists go to a file in `folder`."""
    ragged = {spec.name.removesuffix(VALUES) for spec in tensors if spec.name.endswith(VALUES)}
    simple = not ragged and all(spec.datatype != "BYTES" for spec in tensors)
    if simple:
        sizes = {spec.name: list(_shape(spec, max_batch)) for spec in tensors if -1 in spec.shape}
        return [{"random": {"rows": 4, "below": BELOW, **({"sizes": sizes} if sizes else {})}}]
    random = np.random.default_rng(_SEED)
    arrays = {spec.name: _array(spec, max_batch, ragged, random) for spec in tensors}
    if sum(array.size for array in arrays.values()) <= LONGEST_INLINE:
        return [{"inputs": {name: array.tolist() for name, array in arrays.items()}}]
    rows: dict[str, Any] = {
        spec.name: arrays[spec.name][None].astype(
            np.str_ if spec.datatype == "BYTES" else NUMPY_TYPES[spec.datatype]
        )
        for spec in tensors
    }
    np.savez(folder / INPUTS_FILE, **rows)
    return [{"file": INPUTS_FILE}]


def _shape(spec: TensorSpec, max_batch: int) -> tuple[int, ...]:
    first = SIZE if max_batch else ROWS
    return tuple(
        size if size >= 0 else first if index == 0 else SIZE for index, size in enumerate(spec.shape)
    )


def _array(spec: TensorSpec, max_batch: int, ragged: set[str], random: np.random.Generator) -> NDArray[Any]:
    for suffix in (*OFFSETS, *LENGTHS):
        if spec.name.endswith(suffix) and spec.name.removesuffix(suffix) in ragged:
            counts = (0, *np.cumsum(ROW_LENGTHS)) if suffix in OFFSETS else ROW_LENGTHS
            return np.array(counts, dtype=np.int64)
    shape = _shape(spec, max_batch)
    if spec.name.endswith(VALUES) and spec.shape[:1] == (-1,):
        shape = (sum(ROW_LENGTHS), *shape[1:])
    if spec.datatype == "BYTES":
        words = [_WORDS[index % len(_WORDS)] for index in range(math.prod(shape))]
        return np.array(words).reshape(shape)
    if spec.datatype == "BOOL":
        return random.integers(0, 2, shape).astype(np.bool_)
    if spec.datatype.startswith(("FP", "BF")):
        return np.round(random.standard_normal(shape), 3)
    return random.integers(0, BELOW, shape)


SOURCE_FOLDER = "source"
"""Folder of an imported model with its files."""
_LONGEST_NAME = 40


@dataclass(frozen=True)
class ImportRequest:
    """What to import, and for which endpoint."""

    path: Path
    options: LintOptions
    name: str | None = None
    """The new model; default: the name of the imported one."""
    entry: str | None = None
    """The model of a repository with several."""
    inputs: Path | None = None
    """An .npz file with test inputs."""
    trust_pickle: str | None = None
    """Why its pickles are safe to load."""

    def named(self, own_name: str) -> str:
        """Return the name of the new model, from the name of the imported one."""
        if self.name is not None:
            return self.name
        words = re.sub(r"[^a-z0-9]+", "-", own_name.lower()).lstrip("0123456789-")
        name = words[:_LONGEST_NAME].strip("-")
        if not NAME_PATTERN.fullmatch(name):
            raise CommandLineError(f"cannot derive a model name from {own_name!r}", remedy="add --name NAME")
        return name


@dataclass(frozen=True)
class ImportedModel:
    """An imported model, before it is added to the project."""

    kind: str
    """What was imported, such as `Merlin export`."""
    values: Mapping[str, Any]
    """The keys of its model.yaml."""
    changes: tuple[str, ...] = ()
    """What the import changed or left out."""
    findings: tuple[Finding, ...] = ()
    """Warnings about the imported repository."""
    tensors: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]] | None = None
    """Its inputs and outputs, if they are known before a build."""
