"""Pack an execution environment in a process of its own, while the framework exports the graph.

    python -m model_build.environments.early_packing CACHE [--no-dependencies] REQUIREMENT…

Packing takes seconds, and exporters use one core. A thread would not help: the exporter rarely releases
Python's interpreter lock. The process fills the cache of execution environments and ends with the build. It
reports no errors: the build packs whatever the cache lacks, and reports the same errors.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from model_build.environments.packing import fill_cache

_STOPS_WITHIN_S = 5.0


@dataclass(frozen=True)
class Packages:
    """Pinned requirements of an execution environment."""

    requirements: tuple[str, ...]
    dependencies: bool
    """Whether to pack the packages that they require, too."""


class EarlyPacking:
    """A process that fills the cache, from `start` until the end of the block at the latest."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, packages: Packages | None) -> None:
        """Pack these packages, if any."""
        if packages is None:
            return
        options = [] if packages.dependencies else ["--no-dependencies"]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(self._cache_dir), *options, *packages.requirements],
            stdin=subprocess.PIPE,  # its end stops the process, however this one ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        try:
            self._process.communicate(timeout=_STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Fill the cache, unless the build ends first."""
    parser = argparse.ArgumentParser(description="Pack an execution environment into the cache.")
    parser.add_argument("cache", type=Path)
    parser.add_argument("--no-dependencies", action="store_true")
    parser.add_argument("requirements", nargs="+")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exception also stops pip
    threading.Thread(target=_end_with_build, daemon=True).start()
    fill_cache(options.requirements, cache_dir=options.cache, dependencies=not options.no_dependencies)


def _end_with_build() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
