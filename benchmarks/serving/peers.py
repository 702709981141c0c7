"""Start FastAPI peers, and find the form in which each is fastest."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers.forms import Form
from benchmarks.serving.load import Load, Round, Server
from tritonstack.base.paths import Project

READY_WITHIN_S = 120
SAME_RATE = 0.03
"""Forms whose rates differ by less are equally fast; the one with the lower p99 wins."""
LIBRARIES = {"onnx": "onnxruntime", "torch": "torch", "xgboost": "xgboost-cpu"}


@dataclass(frozen=True)
class Peer:
    """A FastAPI server: its engine and its files."""

    name: str
    engine: str
    folder: Path
    divisions: Sequence[Form]
    """Ways to divide the machine, which the search tries first."""
    batches: Sequence[dict[str, Any]]
    """Changes to the fastest of these, which it tries next: how rows become batches."""
    trial_s: float = 3
    """Length of a trial."""

    @property
    def backend(self) -> str:
        """What computes the answers."""
        library = LIBRARIES[self.engine.partition("-")[2]]
        return f"{library.removesuffix('-cpu')} {version(library)} wheel in FastAPI"


@dataclass(frozen=True)
class Trial:
    """A form, and how fast it was."""

    form: Form
    measured: Round

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"name": str(self.form), "form": asdict(self.form), **asdict(self.measured)}


def search(
    project: Project, peer: Peer, load: Load, *, users: int, on_trial: Callable[[Trial], None]
) -> Form:
    """Try the ways to divide the machine, then ways to batch; return the best form."""

    def tried(forms: Iterator[Form]) -> Iterator[Trial]:
        for form in forms:
            with started(project, peer, form) as server:
                trial = Trial(form, load.run(server, connections=users, seconds=peer.trial_s))
            on_trial(trial)
            if not (trial.measured.errors or trial.measured.wrong):
                yield trial

    trials = list(tried(iter(peer.divisions)))
    if not trials:
        raise RuntimeError(f"{peer.name}: every form failed")
    divided = best(trials, users).form
    if users > 1:
        trials += tried(replace(divided, **change) for change in peer.batches)
    return best(trials, users).form


def best(trials: Sequence[Trial], users: int) -> Trial:
    """Return the trial with the highest rate; equal rates are ordered by p99. One user wants a low p50."""
    if users == 1:
        return min(trials, key=lambda trial: trial.measured.p50_ms)
    highest = max(trial.measured.rate for trial in trials)
    fast = [trial for trial in trials if trial.measured.rate >= highest * (1 - SAME_RATE)]
    return min(fast, key=lambda trial: trial.measured.p99_ms)


@contextmanager
def started(project: Project, peer: Peer, form: Form) -> Iterator[Server]:
    """Start a peer in one form."""
    command = [sys.executable, "-m", "benchmarks.peers.server", f"--engine={peer.engine}"]
    path = os.pathsep.join([str(project.state_dir / "peers"), str(project.root)])
    threads, port = str(form.threads), free_port()
    process = subprocess.Popen(
        [*command, f"--folder={peer.folder}", f"--port={port}", f"--form={form.to_json()}"],
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
