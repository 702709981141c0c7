"""Build on this machine: one process per model, several in parallel."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import model_build
from model_build.errors import ModelBuildError
from model_build.resources import available_memory
from model_build.store.artifacts import read_manifest
from tritonstack.base.error_kinds import CommandInterruptedError, StorageError
from tritonstack.base.errors import TritonstackError, shown_path
from tritonstack.base.extras import require
from tritonstack.base.files import short_digest
from tritonstack.base.paths import Project
from tritonstack.files.project.build_plans import NeededArtifact
from tritonstack.operate.build.outcomes import LINES_SHOWN, Outcome, error_from, show_event
from tritonstack.operate.jobs.jobs import parse_event
from tritonstack.operate.shared.session import Session, Step, Steps
from tritonstack.triton.sandbox import EXPOSE

_CORES_EACH, _GIB_EACH = 2, 6
"""Cores and memory per build."""
_GRACE_S = 30
"""How long interrupted builds have to end."""
RERUN = "rerun the command; it resumes here"
CPU_TARGETS = (f"cpu-py{sys.version_info.major}{sys.version_info.minor}", "cpu")
"""The targets of a CPU build on this machine."""


class BuildInterruptedError(TritonstackError):
    """The user stopped the builds."""

    code = CommandInterruptedError.code


def most_at_once() -> int:
    """Return how many builds this machine can run in parallel."""
    memory = available_memory() // 2**30
    return max(1, min(len(os.sched_getaffinity(0)) // _CORES_EACH, memory // _GIB_EACH))


def build_locally(
    session: Session,
    needed: Sequence[NeededArtifact],
    *,
    at_once: int,
    on_done: Callable[[Outcome], None],
    expose: bool = False,
) -> None:
    """Build each artifact; a failure does not stop the others.

    With `expose`, Triton can listen on every network interface if it cannot be isolated.
    """
    require("isal", feature="building models")
    processes = BuildProcesses(expose)
    pool = ThreadPoolExecutor(at_once)
    running: set[Future[Outcome]] = set()
    try:
        with session.reporter.steps() as steps:
            running |= {pool.submit(_build_one, session, steps, processes, item) for item in needed}
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    on_done(future.result())
                    running.remove(future)
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        ended_before = {future for future in running if future.done()}
        processes.end()
        # Report builds that ended before the interrupt, and those that succeeded in spite of it.
        for future in wait(running, timeout=_GRACE_S).done:
            has_outcome = not future.cancelled() and future.exception() is None
            if has_outcome and (future in ended_before or future.result().manifest):
                on_done(future.result())
        raise BuildInterruptedError("interrupted; unfinished builds are discarded", remedy=RERUN) from None
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass
class BuildProcesses:
    """Build processes that run at the same time."""

    expose: bool
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables besides those of this process."""
    processes: set[subprocess.Popen[str]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: bool = False

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a process in its own session, so that Ctrl-C reaches it only through this process."""
        with self.lock:
            if self.ended:
                raise BuildInterruptedError("interrupted", remedy=RERUN)
            process = subprocess.Popen(
                command,
                env={**_environment(expose=self.expose), **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self.processes.add(process)
            return process

    def end(self) -> None:
        """Terminate all processes, and kill those that do not end in time."""
        with self.lock:
            self.ended = True
            alive = [process for process in self.processes if process.poll() is None]
        for process in alive:
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + _GRACE_S
        try:
            for process in alive:
                process.wait(timeout=max(0.0, end - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            # A second Ctrl-C kills at once.
            for process in alive:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _build_one(session: Session, steps: Steps, processes: BuildProcesses, needed: NeededArtifact) -> Outcome:
    with steps.step(f"building {needed.model} for {needed.target}", label=needed.model) as step:
        command = build_command(session.project, needed.model, needed.targets, needed.choices)
        log = build_log(session, f"{needed.model}-{needed.target}")
        outcome = _run(processes, step, needed, command, log)
        step.failed = outcome.error is not None
        if outcome.manifest:
            step.detail = (
                "already built" if outcome.reused else f"digest {short_digest(outcome.manifest.digest)}"
            )
        return outcome


def build_command(
    project: Project, model: str, targets: Sequence[str], choices: Mapping[str, str], *options: str
) -> list[str]:
    """Return the command of a build process, which reports its steps as lines of JSON."""
    return [
        *(sys.executable, "-P", "-m", "model_build"),
        *("--project", str(project.root)),
        *("--model", model),
        *("--targets", " ".join(targets)),
        *("--choices", json.dumps(dict(choices))),
        *options,
        "--json-progress",
    ]


def _environment(*, expose: bool) -> dict[str, str]:
    """Return variables with which the child imports the same packages, and may expose its servers."""
    packages = str(Path(model_build.__file__).resolve().parents[1])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [packages, os.environ.get("PYTHONPATH")])),
        **({EXPOSE: "1"} if expose else {}),
    }


def build_log(session: Session, name: str) -> Path:
    """Return the log file of a build on this machine."""
    folder = session.project.state_dir / "logs" / "builds"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.log"


def _run(
    processes: BuildProcesses, step: Step, needed: NeededArtifact, command: Sequence[str], log: Path
) -> Outcome:
    """Return the outcome of a build, which may be an error; only an interrupt is raised."""
    try:
        event = run_build(processes, step, command, log, subject=f"the build of {needed.model}")
    except BuildInterruptedError:
        raise
    except TritonstackError as error:
        return Outcome(needed, error=error)
    folder = Path(event["directory"])
    return Outcome(needed, read_manifest(folder), event["reused"], folder)


def run_build(
    processes: BuildProcesses, step: Step, command: Sequence[str], log: Path, *, subject: str
) -> dict[str, Any]:
    """Run a build process and report its steps; return its last event, or raise its error."""
    process = processes.start(command)
    error_lines: list[str] = []
    log.write_text(f"{shlex.join(command)}\n", encoding="utf-8")
    reader = threading.Thread(target=_collect_errors, args=(process, error_lines, log), daemon=True)
    reader.start()
    last_event: dict[str, Any] = {}
    assert process.stdout is not None  # noqa: S101 - start() passes PIPE
    for line in process.stdout:
        if event := parse_event(line):
            last_event = event
            show_event(step, event)
    status = process.wait()
    reader.join()
    kind = last_event.get("event")
    if kind in ("built", "written"):
        return last_event
    if kind == "failed":
        raise error_from(last_event, log=shown_path(log))
    at_step = f" in step {last_event['step']!r}" if kind == "step" else ""
    raise _exit_error(f"{subject}{at_step}", status, error_lines, command, log)


def _exit_error(
    subject: str, status: int, error_lines: Sequence[str], command: Sequence[str], log: Path
) -> TritonstackError:
    manual_run = f"to run it manually: {shlex.join(command)}"
    log_line = f"\n  log: {shown_path(log)}"
    if status == -signal.SIGKILL:
        return StorageError(
            f"{subject} was killed{log_line}",
            remedy="probably out of memory: build fewer at once (--jobs 1), or use a "
            f"larger machine; {manual_run}",
        )
    reason = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
    lines = [line for line in error_lines if line.strip()]
    shown = [line for line in lines if line.startswith("Fatal Python error")] or lines[-1:]
    message = ": ".join([f"{subject} failed with {reason}", *shown])
    return TritonstackError(f"{message}{log_line}", remedy=manual_run, code=ModelBuildError.code)


def _collect_errors(process: subprocess.Popen[str], last_lines: list[str], log: Path) -> None:
    """Write a build's standard error to its log, and keep the last lines."""
    assert process.stderr is not None  # noqa: S101 - start() passes PIPE
    with log.open("a", encoding="utf-8", buffering=1) as file:
        for line in process.stderr:
            file.write(line)
            last_lines[:] = [*last_lines, line.rstrip()][-LINES_SHOWN:]
