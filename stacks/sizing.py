"""How large a machine's disk has to be, and how long it may take to start, from the sizes of artifacts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import takewhile

from tritonstack.records.locks import LockedArtifact

LARGEST_VOLUME_GB = 512
_SMALLEST_VOLUME_GB = 30
_SPARE_GB = 10
_GB = 1024**3
_SHELF_STEPS_GB = (32, 64, 128, 256, LARGEST_VOLUME_GB)

_FETCHING_BYTES_PER_S = 25_000_000
"""Of the archive. A machine takes it from S3 and unpacks it in one stream, on one core, while it fetches a
container image of many gigabytes too: a fifth of the 125 MB/s that its volume writes at best."""
_LOADING_BYTES_PER_S = 10_000_000
"""Of the unpacked files. A model with a Python environment of 2 GB has been seen to need ten minutes until
its container was healthy: the environment is unpacked again, then imported."""
_STARTING_S = 300
"""What machine and server take whatever they serve. Waiting too long delays the failure of an update that
fails anyway; waiting too short fails one that does not."""
_STEP_S = 60
_LONGEST_S = 3600
"""The most that SageMaker waits."""


def gib(size_bytes: int) -> float:
    """A size in the unit that memory is counted in."""
    return size_bytes / _GB


def needed_gb(artifact: LockedArtifact) -> int:
    """What the archive, its unpacked files and Triton's copy of them (execution environments) fill."""
    return math.ceil(_filled(artifact) / _GB) + _SPARE_GB


def volume_gb(artifact: LockedArtifact) -> int:
    """The volume of a machine that serves one artifact."""
    return max(_SMALLEST_VOLUME_GB, needed_gb(artifact))


def shelf_volume_gb(artifacts: Iterable[LockedArtifact]) -> int:
    """The volume of a machine that serves many, in steps: another model seldom changes it.

    SageMaker takes models off a disk that is full, so what would not fit is fetched again instead.
    """
    needed = math.ceil(sum(map(_filled, artifacts)) / _GB) + _SPARE_GB
    too_small = takewhile(lambda step: step < needed, _SHELF_STEPS_GB[:-1])
    return _SHELF_STEPS_GB[len(list(too_small))]


def download_timeout_s(artifact: LockedArtifact) -> int:
    """How long fetching and unpacking an artifact may take."""
    return _rounded(artifact.archive_bytes / _FETCHING_BYTES_PER_S)


def startup_timeout_s(artifact: LockedArtifact | None) -> int:
    """How long a container may take until it is healthy; without an artifact it loads nothing at first."""
    return _rounded(artifact.unpacked_bytes / _LOADING_BYTES_PER_S if artifact else 0)


def memory_bytes(artifact: LockedArtifact) -> int:
    """The least that it takes: its files, and what its Python models exchange tensors through."""
    return artifact.unpacked_bytes + (artifact.shared_memory_bytes or 0)


def _filled(artifact: LockedArtifact) -> int:
    return artifact.archive_bytes + 2 * artifact.unpacked_bytes


def _rounded(seconds: float) -> int:
    steps = math.ceil((_STARTING_S + seconds) / _STEP_S)
    return min(steps * _STEP_S, _LONGEST_S)
