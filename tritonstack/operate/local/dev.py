"""Serve a model on this machine, and serve it again whenever its files change."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_build.errors import ServingError
from tritonstack.base.error_kinds import MachineError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.extras import require
from tritonstack.base.paths import Project
from tritonstack.base.source_files import is_ignored
from tritonstack.client import decode_reply, encode_request
from tritonstack.client.streaming import flat_inputs, read_responses
from tritonstack.facts.container_variables import ADDITIONAL_ARGS, ContainerOptions, container_variables
from tritonstack.files.loading import ProjectFiles, load_models
from tritonstack.files.records.examples import EXAMPLES_NAME, Example, Examples, array_of, parse_examples
from tritonstack.operate.build.local_build import (
    CPU_TARGETS,
    BuildProcesses,
    build_command,
    build_log,
    run_build,
)
from tritonstack.operate.invoke.smoke_requests import output_difference, response_difference
from tritonstack.operate.invoke.snippet import json_body
from tritonstack.operate.local.model_front import ModelFront
from tritonstack.operate.shared.session import Session
from tritonstack.triton import TritonResponse, TritonServer, find_installation, require_isolation

Snapshot = Mapping[str, tuple[int, int]]
"""Modification time and size of each file."""
LOOK_EVERY_S = 0.25


def snapshot_of(folders: Iterable[Path]) -> Snapshot:
    """Return the state of all files in some folders; files that are never part of a model are left out."""
    return dict(_states(folders))


def wait_for_change(look: Callable[[], Snapshot], start: Snapshot) -> Snapshot:
    """Return a later snapshot, once two in a row are equal: editors write a file in several steps."""
    before = start
    while True:
        time.sleep(LOOK_EVERY_S)
        now = look()
        if now != start and now == before:
            return now
        before = now


def _states(folders: Iterable[Path]) -> Iterator[tuple[str, tuple[int, int]]]:
    for folder in folders:
        for parent, inner, files in os.walk(folder, followlinks=True):
            inner[:] = sorted(name for name in inner if not is_ignored(name))
            for name in files:
                if not is_ignored(name):
                    path = os.path.join(parent, name)
                    try:
                        state = os.stat(path)
                    except OSError:
                        continue  # removed meanwhile, or a broken link
                    yield path, (state.st_mtime_ns, state.st_size)


READY_WITHIN_S = 120.0
REQUEST_WITHIN_S = 60.0
LONGEST_INLINE = 300
"""Longer requests are written to a file instead of the command line."""
JSON = "application/json"


@dataclass(frozen=True)
class ServedVersion:
    """A version of a model that answers requests now."""

    number: int
    """1 for the first one since the start."""
    url: str
    request: str
    """A shell command that sends the first test input."""
    seconds: float
    """Time from the change to the first answer."""
    differences: tuple[str, ...]
    """Answers to the test inputs that differ from the right ones."""


@dataclass(frozen=True)
class VersionError:
    """Why a version cannot be built or served."""

    code: str | None
    message: str
    remedy: str | None


@dataclass(frozen=True)
class FailedVersion:
    """A version that cannot be built or served; the former one keeps serving."""

    error: VersionError


@dataclass(frozen=True)
class Development:
    """What was served until the interrupt."""

    versions: int
    """Versions that answered requests."""
    errors: int
    """Versions that could not be built or served."""


def dev(
    session: Session,
    model: str,
    *,
    port: int = 0,
    on_served: Callable[[ServedVersion], None],
    on_error: Callable[[TritonstackError], None],
) -> Development:
    """Serve a model and each change of its files until Ctrl-C; leave nothing behind.

    Each version is exported and compared as in a build, and asked its test inputs, in single-model hosting
    only. Nothing is packed, stored, or published. A version that fails goes to `on_error`, and the former one
    keeps serving.
    """
    require("isal", feature="building models")
    require_processor(session.project, model)
    require_isolation(find_installation(home=session.project.server_dir))
    front = ModelFront(port)
    state = _state_folder(session, model)
    processes = BuildProcesses(expose=False)
    with ExitStack() as cleanup:  # each step runs, even if a second Ctrl-C interrupts the one before
        cleanup.callback(_remove, state)
        cleanup.callback(_stop, front)
        cleanup.callback(processes.end)
        return _Versions(session, model, state, processes, front).run(on_served, on_error)


def _stop(front: ModelFront) -> None:
    if (server := front.close()) is not None:
        server.stop(grace_s=0)


def _remove(state: Path) -> None:
    shutil.rmtree(state, ignore_errors=True)
    with suppress(OSError):  # another process serves a model
        state.parent.rmdir()


def require_processor(project: Project, model: str) -> None:
    """Raise UsageError for a model that runs on GPUs only."""
    document = ProjectFiles(project).model(model)
    if "cpu" not in document.record.builds_for:
        raise MachineError(
            f"{model!r} runs on GPUs only, and this command serves on the CPU of this machine",
            remedy="build and deploy it to an endpoint with a GPU",
        )


def _state_folder(session: Session, model: str) -> Path:
    """Return an empty folder of this process; remove those of processes that were killed."""
    parent = session.project.state_dir / "dev"
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.iterdir():
        pid = folder.name.rpartition("-")[2]
        if not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)
    state = parent / f"{model}-{os.getpid()}"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir()
    return state


class _Versions:
    def __init__(
        self, session: Session, model: str, state: Path, processes: BuildProcesses, front: ModelFront
    ) -> None:
        self._session = session
        self._model = model
        self._state = state
        self._processes = processes
        self._front = front
        self._choices: Mapping[str, str] = {}
        self._folders = [session.project.model_file(model).parent]
        self._number = 0

    def run(
        self, on_served: Callable[[ServedVersion], None], on_error: Callable[[TritonstackError], None]
    ) -> Development:
        """Serve each version until Ctrl-C."""
        snapshot: Snapshot | None = None
        served = errors = 0
        try:
            while True:
                if snapshot is not None:
                    wait_for_change(self._look, snapshot)
                with suppress(TritonstackError):  # the build reports it
                    self._watch_members()
                snapshot = self._look()
                try:
                    on_served(self._serve())
                    served += 1
                except TritonstackError as error:
                    on_error(error)
                    errors += 1
        except KeyboardInterrupt:
            return Development(served, errors)

    def _look(self) -> Snapshot:
        return snapshot_of(self._folders)

    def _serve(self) -> ServedVersion:
        begin = time.monotonic()
        self._number += 1
        folder = self._state / str(self._number)
        folder.mkdir()
        try:
            server, examples = self._start(folder)
            try:
                violations = tuple(differences(server, examples))
            except BaseException:
                server.stop(grace_s=0)
                raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        former = self._front.exchange(server)
        if former is not None:
            former.stop(grace_s=0)
            for old in self._state.iterdir():
                if old.is_dir() and old != folder:
                    shutil.rmtree(old, ignore_errors=True)
        first = next(iter(examples.requests), None)
        command = _command(self._front.url, first, self._state / "request")
        seconds = round(time.monotonic() - begin, 1)
        return ServedVersion(self._number, self._front.url, command, seconds, violations)

    def _watch_members(self) -> None:
        models = load_models(self._session.project, self._model)
        sources = (
            (document.file.parent / source.removeprefix("file://")).resolve()
            for document in models.values()
            if (source := document.record.source or "").startswith("file://")
        )
        folders = [document.file.parent.resolve() for document in models.values()]
        outside = [path for path in sources if not any(path.is_relative_to(folder) for folder in folders)]
        self._folders = [*folders, *outside]

    def _start(self, folder: Path) -> tuple[TritonServer, Examples]:
        command = build_command(
            self._session.project, self._model, CPU_TARGETS, self._choices, "--write", str(folder)
        )
        log = build_log(self._session, f"{self._model}-dev")
        with self._session.reporter.step(f"building {self._model}") as step:
            written = run_build(self._processes, step, command, log, subject=f"the build of {self._model}")
        self._choices = written["choices"]
        repository = Path(written["repository"])
        with self._session.reporter.step(f"starting {self._model}"):
            server = self._server(repository, written, folder / "server")
            try:
                server.wait_ready(timeout_s=READY_WITHIN_S)
            except BaseException:
                server.stop(grace_s=0)
                raise
        file = folder / EXAMPLES_NAME
        return server, parse_examples(file.read_bytes(), origin=file)

    def _server(self, repository: Path, written: Mapping[str, Any], state: Path) -> TritonServer:
        # They need packages of builds, whose absence `dev` reports first.
        from model_build.checking.archive_checks import own_threads  # noqa: PLC0415
        from model_build.repository.properties import read_properties  # noqa: PLC0415

        spec = ProjectFiles(self._session.project).model(self._model).record
        arguments = {ADDITIONAL_ARGS: " ".join(written["arguments"])} if written["arguments"] else {}
        options = ContainerOptions(
            written["entry"],
            keeps_answers=read_properties(repository).keeps_answers,
            generates=spec.generates,
            threads=own_threads(repository),
            streams=spec.streams,
        )
        return TritonServer.start(
            installation=find_installation(home=self._session.project.server_dir),
            model_root=repository,
            environment=container_variables(arguments, options),
            state_dir=state,
        )


def differences(server: TritonServer, examples: Examples) -> Iterator[str]:
    """Send the test inputs; yield answers that differ. Raise ServingError if one is an error."""
    for example in examples.requests:
        kind, body = _encoded(example)
        reply = server.request(
            "POST", "/invocations", body=body, headers={"Content-Type": kind}, timeout_s=REQUEST_WITHIN_S
        )
        if reply.status != 200:
            raise ServingError(
                f"{example.name}: status {reply.status}: {reply.body.decode(errors='replace')[:1000]}",
                remedy="correct the model; the former version keeps serving",
            )
        if example.responses:
            yield from _stream_differences(example, reply)
            continue
        if example.sequence is not None:
            return  # a sequence needs its own parameters; the first request shows that it answers
        outputs = decode_reply(reply.body, content_type=reply.headers["content-type"]).outputs
        for right in example.outputs:
            if difference := output_difference(right, outputs):
                yield f"{example.name}: {difference}"


def _encoded(example: Example) -> tuple[str, bytes]:
    inputs = {tensor.name: array_of(tensor) for tensor in example.inputs}
    if example.responses:
        return JSON, json.dumps(flat_inputs(inputs), ensure_ascii=False).encode()
    request = encode_request(inputs)
    return request.content_type, request.body


def _stream_differences(example: Example, reply: TritonResponse) -> Iterator[str]:
    """Yield what is wrong with the responses of a decoupled model; raise ServingError for an error."""
    responses = list(read_responses([reply.body], content_type=reply.headers["content-type"]))
    for number, response in enumerate(responses):
        if "error" in response:
            raise ServingError(
                f"{example.name}: error after {number} responses: {response['error']}",
                remedy="correct the model; the former version keeps serving",
            )
    if difference := response_difference(example, responses):
        yield f"{example.name}: {difference}"


def _command(url: str, example: Example | None, file: Path) -> str:
    """Return a curl command for a test input; write its request to a file if it is long or binary."""
    if example is None:  # all test inputs are too large for examples
        return shlex.join(["curl", "-sS", f"{url}/ping"])
    kind, body = _encoded(example)
    if not example.responses:
        with suppress(ValueError):  # the request has no form in JSON
            kind, body = JSON, json_body({tensor.name: array_of(tensor) for tensor in example.inputs}, {})
    sent = body.decode() if kind == JSON and len(body) <= LONGEST_INLINE else f"@{file}"
    if sent.startswith("@"):
        file.write_bytes(body)
    output = [] if kind == JSON else ["--output", "answer.bin"]
    return shlex.join(
        ["curl", "-sS", f"{url}/invocations", "-H", f"Content-Type: {kind}", "--data-binary", sent, *output]
    )
