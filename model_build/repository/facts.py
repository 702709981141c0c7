"""What the configurations of a repository say about how it has to be served and checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from model_build.repository.config import CONFIG_NAME, read_config


@dataclass(frozen=True)
class RepositoryFacts:
    """Of all models in it."""

    decoupled: tuple[str, ...]
    """Models that answer a request by a stream of any length."""
    cached: tuple[str, ...]
    """Models whose answers are to be remembered."""
    python_processes: int
    """Processes of Python models, each with shared memory of its own."""


def read_facts(repository: Path) -> RepositoryFacts:
    """Read every configuration of a repository whose layout has been checked."""
    configs = [read_config(file) for file in sorted(repository.glob(f"*/{CONFIG_NAME}"))]
    python = [config for config in configs if config.backend == "python"]
    return RepositoryFacts(
        decoupled=tuple(c.name for c in configs if c.model_transaction_policy.decoupled),
        cached=tuple(c.name for c in configs if c.response_cache.enable),
        python_processes=sum(
            sum(group.count or 1 for group in config.instance_group) or 1 for config in python
        ),
    )
