"""Build one combination of settings, serve it with a real Triton, and measure it under load.

A form is the artifact of the values that need a build: a copy of the user's files with an edited model.yaml,
in the folder of the search. It uses the server and the cache of the project.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from model_build.errors import ExportError, ParityError, UnsupportedModelError
from model_build.store.artifacts import read_manifest
from tritonstack.base.errors import TritonstackError, shown_path
from tritonstack.base.files import read_json, write_text_atomically
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document, TextualDumper, load_yaml, read_text
from tritonstack.facts.container_variables import ContainerOptions, container_variables
from tritonstack.facts.threads import OPENMP, Threads
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.triton_options import TritonOptions
from tritonstack.files.records.examples import EXAMPLES_NAME
from tritonstack.files.records.manifests import ARCHIVE_NAME, Manifest
from tritonstack.files.scaffold.yaml_edits import with_changes
from tritonstack.operate.build.local_build import (
    CPU_TARGETS,
    BuildProcesses,
    build_command,
    build_log,
    run_build,
)
from tritonstack.operate.shared.session import Session
from tritonstack.triton import TritonInstallation, TritonServer
from tritonstack.triton.errors import TritonRequestError, TritonTimeoutError
from tritonstack_sizing.errors import SearchError
from tritonstack_sizing.loads.arrivals import poisson
from tritonstack_sizing.loads.histograms import percentiles_s
from tritonstack_sizing.loads.runs import summarize
from tritonstack_sizing.loads.sending import PreparedRequest, Sent, closed_loop, open_loop, run_loop
from tritonstack_sizing.tuning.settings import BATCH_TOKENS, Part, Setting, has_small_batches
from tritonstack_sizing.tuning.spaces import Measured

_PERMANENT_ERRORS = frozenset({ExportError.code, UnsupportedModelError.code, ParityError.code})
"""Codes of builds that fail each time: no export, or wrong answers. All others may succeed the next time."""
BuiltValues = tuple[tuple[Setting, Any], ...]
"""Settings that need a build, with their values."""


@dataclass(frozen=True)
class Form:
    """A built artifact, unpacked."""

    manifest: Manifest
    repository: Path
    examples: Path


@dataclass
class FormBuilder:
    """Builds a model with any values of the settings that need a build; each form once."""

    session: Session
    model: str
    models: Mapping[str, Document[ModelSpec]]
    folder: Path
    """The folder of the search."""

    def form(self, values: BuiltValues, *, sized: bool = False) -> Form:
        """Return a form, built now or before; raise the error of its build.

        A `sized` form can be served with any `batch_tokens`. One that is not has the digest of a build of the
        user's files with these values.
        """
        # Imported here: it needs the extra `build`, whose absence the command reports first.
        from model_build.store.archive import most_members, unpack  # noqa: PLC0415

        changes = {(setting.model, setting.field): value for setting, value in values}
        key = [*sorted(map(str, changes.items())), *(["sized"] if sized else [])]
        root = self.folder / "forms" / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
        built_file, failed_file = root / "built.json", root / "failed.json"
        if failed_file.exists():
            raise SearchError(
                read_json(failed_file)["message"],
                remedy=f"see {shown_path(self.folder / 'forms')}, or remove the folder to build it again",
            )
        if not built_file.exists():
            shutil.rmtree(root, ignore_errors=True)
            project = Project(root / "project")
            self._copy(project, values, sized=sized)
            try:
                artifact = self._build(project, values)
            except TritonstackError as error:
                if values and error.code in _PERMANENT_ERRORS:
                    message = {"message": error.message.splitlines()[0]}
                    write_text_atomically(failed_file, json.dumps(message))
                raise
            manifest = read_manifest(artifact)
            unpack(
                artifact / ARCHIVE_NAME,
                root / "repository",
                limit_bytes=manifest.unpacked_bytes,
                limit_members=most_members(manifest.files),
            )
            write_text_atomically(built_file, json.dumps({"artifact": str(artifact)}))
        artifact = Path(read_json(built_file)["artifact"])
        return Form(read_manifest(artifact), root / "repository", artifact / EXAMPLES_NAME)

    def _copy(self, project: Project, values: BuiltValues, *, sized: bool) -> None:
        """Copy the models, each with an edited model.yaml; other files are hard links."""
        for name, document in self.models.items():
            source, target = document.file.parent, project.models_dir / name
            shutil.copytree(source, target, copy_function=_link, symlinks=True)
            data = load_yaml(read_text(document.file))
            settings = [(setting, value) for setting, value in values if setting.model == name]
            settings += _small_batches(document.record, values) if sized else ()
            for setting, value in settings:
                data = setting.change(data, value)
            if (source_folder := _outside_source(document)) is not None:
                data = with_changes(data, (), {"source": f"file://{source_folder}"})
            file = project.model_file(name)
            file.unlink()
            text = yaml.dump(data, Dumper=TextualDumper, allow_unicode=True, sort_keys=False)
            file.write_text(text, encoding="utf-8")

    def _build(self, project: Project, values: BuiltValues) -> Path:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        user_project = self.session.project
        for name, shared in (("server", user_project.server_dir), ("cache", user_project.cache_dir)):
            shared.mkdir(parents=True, exist_ok=True)
            if not (home / name).is_symlink():
                (home / name).symlink_to(shared, target_is_directory=True)
        processes = BuildProcesses(expose=False, variables={"TRITONSTACK_HOME": str(home)})
        description = ", ".join(f"{setting.dimension.name} {value}" for setting, value in values)
        command = build_command(project, self.model, CPU_TARGETS, {})
        title = f"building {self.model}{f' with {description}' if description else ''}"
        try:
            with self.session.reporter.step(title) as step:
                log = build_log(self.session, f"{self.model}-tune")
                event = run_build(processes, step, command, log, subject=f"the build of {self.model}")
        finally:
            processes.end()
        return Path(event["directory"])


def _small_batches(spec: ModelSpec, values: BuiltValues) -> Iterator[tuple[Setting, Any]]:
    """Yield the usual size of small batches: an artifact with a size can be served with any."""
    two_models = any(
        setting.model == spec.name and setting.field == "one_model" and value is False
        for setting, value in values
    )
    if has_small_batches(spec) and getattr(spec.recipe, "batch_tokens", None) is None and not two_models:
        yield Setting.of(spec.name, "batch_tokens"), BATCH_TOKENS


def _outside_source(document: Document[ModelSpec]) -> Path | None:
    """Return the folder of a source outside the model's folder, which a copy would not find."""
    source = document.record.source or ""
    if not source.startswith("file://"):
        return None
    folder = document.file.parent.resolve()
    source_folder = (folder / source.removeprefix("file://")).resolve()
    return None if source_folder.is_relative_to(folder) else source_folder


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system has no hard links to this one
        shutil.copy2(source, target)


READY_WITHIN_S = 120.0
ANSWERED_WITHIN_S = 65.0
"""SageMaker ends requests after 60 seconds."""
_PROBE = 1 / 3
"""The share of a run after which a combination that is much worse than the best is given up."""
_HOPELESS = 0.35
"""How much worse: as a logarithm, 30 % less throughput or 42 % more latency."""


@dataclass(frozen=True)
class Load:
    """What is sent to each combination: a closed loop of users, or an open loop with a rate."""

    users: int
    rate: float | None
    seconds: float
    requests: tuple[PreparedRequest, ...]
    seed: int = 1


@dataclass(frozen=True)
class LocalServing:
    """How this machine serves, apart from what is searched."""

    installation: TritonInstallation
    cores: int
    """The cores that the server gets."""
    variables: Mapping[str, str]
    """The variables of the endpoint."""
    work: Path

    @contextmanager
    def served(
        self, form: Form, parts: Mapping[str, Part], values: Sequence[tuple[Setting, Any]]
    ) -> Iterator[TritonServer]:
        """Serve a form with settings of config.pbtxt and variables; leave nothing behind."""
        folder = self.work / "serving"
        shutil.rmtree(folder, ignore_errors=True)
        repository = folder / "model"
        try:
            shutil.copytree(form.repository, repository, copy_function=os.link)
            for setting, value in values:
                if setting.model and not setting.is_built:
                    configure(repository, parts, setting, value)
            with self._start(form, repository, values, folder / "server") as server:
                server.wait_ready(timeout_s=READY_WITHIN_S)
                yield server
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _start(
        self, form: Form, repository: Path, values: Sequence[tuple[Setting, Any]], state: Path
    ) -> TritonServer:
        # It needs packages of builds, whose absence the command reports first.
        from model_build.repository.properties import read_instances, read_properties  # noqa: PLC0415

        instances = read_instances(repository, gpu=False)
        threads = Threads(
            self.cores, instances.most, instances.graphs_decide_threads, instances.least_threads
        )
        variables = dict(self.variables)
        for setting, value in values:
            if not setting.model:
                variables.pop(OPENMP, None)
                variables |= {} if value is None else {OPENMP: str(value)}
        options = ContainerOptions(
            form.manifest.entry_model,
            keeps_answers=read_properties(repository).keeps_answers,
            threads=threads,
        )
        with _only_cores(self.cores):
            return TritonServer.start(
                installation=self.installation,
                model_root=repository,
                environment=container_variables(variables, options),
                state_dir=state,
            )


def configure(repository: Path, parts: Mapping[str, Part], setting: Setting, value: Any) -> None:
    """Write a setting into config.pbtxt, as the build does for model.yaml."""
    # They need packages of builds, whose absence the command reports first.
    from model_build.repository.config import CONFIG_NAME, read_config, write_config  # noqa: PLC0415
    from model_build.repository.options import place_instances  # noqa: PLC0415

    folder = repository / parts[setting.model].folder
    config = read_config(folder / CONFIG_NAME)
    match setting.field:
        case "instances":
            if not config.instance_group:
                place_instances(config, TritonOptions(), gpu=False)
            config.instance_group[0].count = value
        case "queue_delay_us":
            config.dynamic_batching.max_queue_delay_microseconds = value
        case "max_batch":
            config.max_batch_size = value
        case "batch_tokens":
            if "batch_tokens" not in config.parameters:
                return  # this form has two models
            config.parameters["batch_tokens"].string_value = str(value)
    (folder / CONFIG_NAME).unlink()  # it is a link to the file of the form
    write_config(config, folder)


def measure(
    server: TritonServer, load: Load, *, is_hopeless: Callable[[Measured], bool] | None = None
) -> Measured:
    """Measure a served combination; with `is_hopeless`, end early if its first part shows that it is bad.

    A first part without answers and errors shows nothing: requests may take longer.
    """
    if is_hopeless is None:
        return measure_levels(server, [load])[0]
    parts = [replace(load, seconds=load.seconds * share) for share in (_PROBE, 1 - _PROBE)]
    return measure_levels(
        server, parts, stops=lambda part: is_hopeless(part) if part.usable else part.failed_share > 0
    )[-1]


def measure_levels(
    server: TritonServer, loads: Sequence[Load], *, stops: Callable[[Measured], bool] = lambda _: False
) -> list[Measured]:
    """Measure a served combination under several loads, until a result stops that."""
    results: list[Measured] = []

    async def loop() -> Sent:
        sent = Sent()
        for load in loads:
            sent = await _send(server, load)
            results.append(_measured(sent, load.seconds))
            if stops(results[-1]):
                break
        return sent

    _warm(server, loads[0])
    run_loop(loop())
    return results


def is_far_below(gain: float, best: float | None) -> bool:
    """Return whether a run that reaches this gain is not worth its whole time."""
    return best is not None and gain < best - _HOPELESS


def serving_failure(error: TritonstackError) -> Measured:
    """Return the result of a combination that cannot be built or served."""
    return Measured(0.0, math.nan, math.nan, violation=error.message.splitlines()[0])


@contextmanager
def _only_cores(count: int) -> Iterator[None]:
    """Let processes that start meanwhile use some cores only."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(usable)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def _warm(server: TritonServer, load: Load) -> None:
    """Send each request once: memory is allocated, and kernels are chosen."""
    for request in load.requests:
        server.request(
            "POST",
            "/invocations",
            body=request.body,
            headers={"Content-Type": request.content_type},
            timeout_s=ANSWERED_WITHIN_S,
        )


async def _send(server: TritonServer, load: Load) -> Sent:
    async def send(number: int) -> str:
        request = load.requests[number % len(load.requests)]
        try:
            reply = await server.exchange(
                "POST",
                "/invocations",
                body=request.body,
                headers={"Content-Type": request.content_type},
                timeout_s=ANSWERED_WITHIN_S,
            )
        except TritonTimeoutError:
            return "timeout"
        except TritonRequestError as error:
            return type(error).__name__
        return "" if reply.status == 200 else f"HTTP {reply.status}"

    if load.rate is not None:
        return await open_loop(send, poisson(load.rate, load.seconds, seed=load.seed).offsets)
    return await closed_loop(send, users=load.users, seconds=load.seconds)


def _measured(sent: Sent, seconds: float) -> Measured:
    run = summarize(sent, load="tune", seconds=seconds, is_trace=False)
    if not run.answered_per_s or not run.latencies.sum():
        errors = ", ".join(f"{name} ({count})" for name, count in run.errors.items())
        reason = (
            f"no answers: {errors}" if errors else f"no answers within {seconds:g} s; use a longer --duration"
        )
        return Measured(0.0, math.nan, math.nan, run.failed_share, reason)
    p50, p99 = (percentiles_s(run.latencies, (50.0, 99.0)) * 1000).tolist()
    return Measured(run.answered_per_s, p50, p99, run.failed_share)
