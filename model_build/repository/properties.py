"""Read how a repository has to be served and tested from its configurations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from model_build.repository.config import CONFIG_NAME, read_config


@dataclass(frozen=True)
class RepositoryProperties:
    """Properties of all models in a repository."""

    keeps_answers: bool
    """Whether any model uses the response cache."""
    keeps_state: bool
    """Whether any model takes sequences."""


def read_properties(repository: Path) -> RepositoryProperties:
    """Read every configuration of a repository whose layout has been checked."""
    configs = [read_config(file) for file in sorted(repository.glob(f"*/{CONFIG_NAME}"))]
    return RepositoryProperties(
        keeps_answers=any(config.response_cache.enable for config in configs),
        keeps_state=any(config.HasField("sequence_batching") for config in configs),
    )
