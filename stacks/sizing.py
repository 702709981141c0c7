"""Compute disk sizes and startup timeouts from artifact sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import takewhile

from tritonstack.files.records.locks import LockedArtifact

LARGEST_VOLUME_GB = 512
_SMALLEST_VOLUME_GB = 30
_SPARE_GB = 10
_GB = 1024**3
_VOLUME_STEPS_GB = (32, 64, 128, 256, LARGEST_VOLUME_GB)

_FETCHING_BYTES_PER_S = 25_000_000
"""Download rate of the archive. An instance downloads and unpacks it in one stream on one core while it pulls
a container image of many gigabytes: about a fifth of the volume's 125 MB/s write rate."""
_LOADING_BYTES_PER_S = 10_000_000
"""Load rate of the unpacked files. A model with a 2 GB Python environment needed up to ten minutes to become
healthy: the environment is unpacked again, then imported."""
_STARTING_S = 300
"""Startup time of instance and server without a model. A timeout that is too long delays the failure of an
update; one that is too short fails a healthy update."""
_STEP_S = 60
_LONGEST_S = 3600
"""The longest timeout that SageMaker accepts."""


def gib(size_bytes: int) -> float:
    """Convert bytes to GiB."""
    return size_bytes / _GB


def needed_gb(artifact: LockedArtifact) -> int:
    """Return the disk space for the archive, its unpacked files, and Triton's copy of them (execution
    environments)."""
    return math.ceil(_filled(artifact) / _GB) + _SPARE_GB


def volume_gb(artifact: LockedArtifact) -> int:
    """Return the volume size of an instance that serves one artifact."""
    return max(_SMALLEST_VOLUME_GB, needed_gb(artifact))


def multi_model_volume_gb(artifacts: Iterable[LockedArtifact]) -> int:
    """Return the volume size of a multi-model instance, in steps, so that adding a model rarely changes it.

    SageMaker evicts models from a full disk and fetches them again on demand.
    """
    needed = math.ceil(sum(map(_filled, artifacts)) / _GB) + _SPARE_GB
    too_small = takewhile(lambda step: step < needed, _VOLUME_STEPS_GB[:-1])
    return _VOLUME_STEPS_GB[len(list(too_small))]


def download_timeout_s(artifact: LockedArtifact) -> int:
    """Return the download timeout of an artifact."""
    return _rounded(artifact.archive_bytes / _FETCHING_BYTES_PER_S)


def startup_timeout_s(artifact: LockedArtifact | None) -> int:
    """Return the startup timeout of a container; without an artifact, it loads nothing at startup."""
    return _rounded(artifact.unpacked_bytes / _LOADING_BYTES_PER_S if artifact else 0)


def memory_bytes(artifact: LockedArtifact) -> int:
    """Return the minimum memory: the artifact's files, the graphs that further instances load again, and the
    shared memory of its Python models."""
    return artifact.unpacked_bytes + (artifact.copies_bytes or 0) + (artifact.shared_memory_bytes or 0)


def _filled(artifact: LockedArtifact) -> int:
    return artifact.archive_bytes + 2 * artifact.unpacked_bytes


def _rounded(seconds: float) -> int:
    steps = math.ceil((_STARTING_S + seconds) / _STEP_S)
    return min(steps * _STEP_S, _LONGEST_S)
