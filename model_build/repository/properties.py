"""What the configurations of a repository say about how it has to be served and asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from model_build.repository.config import CONFIG_NAME, read_config


@dataclass(frozen=True)
class RepositoryProperties:
    """Of all models in it."""

    keeps_answers: bool
    """Whether answers of one are to be remembered."""
    keeps_state: bool
    """Whether one takes requests in sequences."""


def read_properties(repository: Path) -> RepositoryProperties:
    """Read every configuration of a repository whose layout has been checked."""
    configs = [read_config(file) for file in sorted(repository.glob(f"*/{CONFIG_NAME}"))]
    return RepositoryProperties(
        keeps_answers=any(config.response_cache.enable for config in configs),
        keeps_state=any(config.HasField("sequence_batching") for config in configs),
    )
