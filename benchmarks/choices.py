"""Check that `precision: auto` makes the same artifact again on a busy machine.

    python -m benchmarks.choices [--builds 10] [--busy 1]

Build MiniLM several times, each time into an empty store and without a recorded choice, and print digest,
choice, and times of each build. Exit with code 1 if the digests differ.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from model_build.build import BuildFolders, build_model
from tritonstack.base.files import short_digest
from tritonstack.base.paths import find_project
from tritonstack.base.yaml import Document, load_document
from tritonstack.records.manifests import Manifest
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.tolerance import ModelTolerance

MODEL = "minilm-embedding"
ACCEPT = ModelTolerance(cosine=0.97, relative=0.3)
"""The default of `int8`, which MiniLM keeps."""


def main() -> int:
    """Build repeatedly and compare the digests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--builds", type=int, default=10, help="number of builds")
    parser.add_argument("--busy", type=int, default=1, help="number of busy processes")
    options = parser.parse_args()
    project = find_project(Path(__file__))
    model = _model(project.model_file(MODEL))
    digests = set()
    with busy_processes(options.busy):
        for number in range(1, options.builds + 1):
            with tempfile.TemporaryDirectory() as store:
                folders = replace(BuildFolders.of(project), artifacts=Path(store))
                begin = time.monotonic()
                manifest = build_model(model=model, folders=folders).manifest
            digests.add(manifest.digest)
            print(f"{number:2} {_row_text(manifest)} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(digests)} digest(s) from {options.builds} builds with {options.busy} busy processes")
    return 0 if len(digests) == 1 else 1


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run processes that use all the CPU time they get."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _model(file: Path) -> Document[ModelSpec]:
    document = load_document(file, ModelSpec)
    record = document.record.model_copy(update={"precision": "auto", "accept": ACCEPT})
    return replace(document, record=record)


def _row_text(manifest: Manifest) -> str:
    times = "; ".join(
        f"{candidate.name} {' '.join(map(str, candidate.latency_ms.values()))} ms"
        for candidate in manifest.candidates
    )
    return f"{short_digest(manifest.digest)} {manifest.choices[MODEL]} [{times}]"


if __name__ == "__main__":
    sys.exit(main())
