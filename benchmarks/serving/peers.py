"""Start FastAPI peers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.peers.forms import Form
from benchmarks.serving.load import Server
from tritonstack.base.paths import Project

READY_WITHIN_S = 120
LIBRARIES = {"onnx": "onnxruntime", "torch": "torch", "xgboost": "xgboost-cpu"}


@dataclass(frozen=True)
class Peer:
    """A FastAPI server: its engine and its files."""

    name: str
    engine: str
    folder: Path
    form: Form
    """The fastest of the forms in docs/performance.md, on two cores."""

    @property
    def backend(self) -> str:
        """What computes the answers."""
        library = LIBRARIES[self.engine.partition("-")[2]]
        return f"{library.removesuffix('-cpu')} {version(library)} wheel in FastAPI"


@contextmanager
def started(project: Project, peer: Peer) -> Iterator[Server]:
    """Start a peer in its form."""
    command = [sys.executable, "-m", "benchmarks.peers.server", f"--engine={peer.engine}"]
    path = os.pathsep.join([str(project.state_dir / "peers"), str(project.root)])
    threads, port = str(peer.form.threads), free_port()
    process = subprocess.Popen(
        [*command, f"--folder={peer.folder}", f"--port={port}", f"--form={peer.form.to_json()}"],
        cwd=project.root,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": threads,
            "RAYON_NUM_THREADS": threads,
            "TRANSFORMERS_VERBOSITY": "error",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        },
        start_new_session=True,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(f"{url}/ping", process)
        yield Server(peer.name, peer.backend, process.pid, f"{url}/invocations")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return when a server answers; raise RuntimeError if it ends or takes too long."""
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - always http://127.0.0.1
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"{url} does not answer")
