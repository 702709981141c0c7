"""Stand in for `python -m model_build`: report a kept artifact at once, or fail as the model's name says.

The child process, which runs this file, imports nothing of the product, and so starts in no time.

broken      ends with an error in words
crashing    ends without a word, but for what Python says
endless     runs until it is told to end, and says in a file that it was
stubborn    runs on although it was told to end
killed      is killed, as the kernel does where memory runs out
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tritonstack.base.paths import Project
    from tritonstack.files.records.examples import Examples

CONTENT = "{model} for {target}"
FAILURES = {"broken", "crashing", "endless", "stubborn", "killed"}


def stand_in_command(project: Project, model: str, targets: Sequence[str], *_: object) -> list[str]:
    """Return what runs instead of `python -m model_build`; a model that is built gets its artifact now."""
    target = targets[-1]
    folder = "" if model in FAILURES else str(keep(project, model, target))
    return [sys.executable, "-I", "-S", __file__, str(project.root), model, target, folder]


def examples_of(model: str, content: bytes) -> Examples:
    from tritonstack.files.records.examples import Examples

    return Examples(model=model, digest=hashlib.sha256(content).hexdigest(), texts=("Hello",))


def manifest_of(project: Project, model: str, target: str, content: bytes) -> dict[str, Any]:
    from tritonstack.files.loading import load_models
    from tritonstack.files.sources.model_hashes import model_hash

    accepted = load_models(project, model)[model].record.accept.tolerance("y", "fp32")
    return {
        "model": model,
        "entry_model": model,
        "digest": hashlib.sha256(content).hexdigest(),
        "target": target,
        "spec_hash": model_hash(model, load_models(project, model)),
        "source": "",
        "source_revision": "1",
        "weights_sha256": "ef" * 32,
        "precision": "fp32",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [1]}],
        "archive_bytes": len(content),
        "unpacked_bytes": 1,
        "files": [],
        "parity": [
            {
                "stage": "served",
                "cases": 1,
                "min_cosine": accepted.cosine,
                "max_absolute_error": 0.0,
                "accepted": {"y": accepted.model_dump(exclude_none=True)},
            }
        ],
        "latency": [{"batch": 1, "requests": 1, "p50_ms": 1.0, "p99_ms": 1.0}],
        "served_by": {"kind": "container", "triton": "2.57.0", "python": "3.12"},
        "tools": {},
        "examples_sha256": examples_of(model, content).sha256,
    }


def keep(project: Project, model: str, target: str) -> Path:
    """Keep an artifact in the project's own store."""
    from tritonstack.files.records.examples import EXAMPLES_NAME
    from tritonstack.files.records.manifests import ARCHIVE_NAME, MANIFEST_NAME

    content = CONTENT.format(model=model, target=target).encode()
    manifest = manifest_of(project, model, target, content)
    folder = project.artifacts_dir / "models" / model / manifest["digest"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ARCHIVE_NAME).write_bytes(content)
    (folder / EXAMPLES_NAME).write_text(examples_of(model, content).to_json())
    (folder / MANIFEST_NAME).write_text(json.dumps(manifest))
    return folder


def main(root: str, model: str, target: str, folder: str) -> int:
    project = Path(root)

    def tell(**event: Any) -> None:
        print(json.dumps({"model": model, **event}), flush=True)

    if model == "endless":
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # before a test can see that it runs
    with (project / "started.txt").open("a") as stream:
        stream.write(f"{model}\n")
    tell(event="step", step="source", state="started", detail="", seconds=0.0)
    if model == "broken":
        tell(
            event="failed", code="TS312", message="the graph answers otherwise", remedy="mend it", exit_code=1
        )
        return 1
    if model == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if model == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (project / "stubborn.txt").write_text(str(os.getpid()))
        time.sleep(60)
    if model == "crashing":
        raise MemoryError("no room")
    if model == "endless":
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            (project / "ended.txt").write_text("told to")
            return 1
    tell(event="built", digest=Path(folder).name, target=target, reused=False, directory=folder)
    (project / f"{model}-told.txt").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
