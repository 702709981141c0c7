"""Stand in for `python -m model_build`: write an artifact at once, or fail as the model's name says.

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
from pathlib import Path
from typing import Any

from tritonstack.base.paths import Project
from tritonstack.project.files.model_hashes import model_hash
from tritonstack.project.loading import load_models
from tritonstack.records.examples import EXAMPLES_NAME, Examples
from tritonstack.records.manifests import ARCHIVE_NAME, MANIFEST_NAME

CONTENT = "{model} for {target}"


def examples_of(model: str, content: bytes) -> Examples:
    return Examples(model=model, digest=hashlib.sha256(content).hexdigest(), texts=("Hello",))


def manifest_of(project: Project, model: str, target: str, content: bytes) -> dict[str, Any]:
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
    content = CONTENT.format(model=model, target=target).encode()
    manifest = manifest_of(project, model, target, content)
    folder = project.artifacts_dir / "models" / model / manifest["digest"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ARCHIVE_NAME).write_bytes(content)
    (folder / EXAMPLES_NAME).write_text(examples_of(model, content).to_json())
    (folder / MANIFEST_NAME).write_text(json.dumps(manifest))
    return folder


def main(root: str, model: str, targets: str) -> int:
    project = Project(Path(root))

    def tell(**event: Any) -> None:
        print(json.dumps({"model": model, **event}), flush=True)

    with (project.root / "started.txt").open("a") as stream:
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
        (project.root / "stubborn.txt").write_text(str(os.getpid()))
        time.sleep(60)
    if model == "crashing":
        raise MemoryError("no room")
    if model == "endless":
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            (project.root / "ended.txt").write_text("told to")
            return 1
    folder = keep(project, model, targets.rsplit(maxsplit=1)[-1])
    tell(
        event="built",
        digest=folder.name,
        target=targets.rsplit(maxsplit=1)[-1],
        reused=False,
        directory=str(folder),
    )
    (project.root / f"{model}-told.txt").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
