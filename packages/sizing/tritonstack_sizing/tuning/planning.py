"""Plan a search: build the model, and find its settings, its requests, and how long the search takes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tritonstack.base.error_kinds import CommandLineError, MachineError
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.extras import require
from tritonstack.base.yaml import Document
from tritonstack.facts.threads import OPENMP
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.files.loading import ProjectFiles, load_models
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.project.names import require_known
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.examples import array_of, parse_examples
from tritonstack.files.sources.model_hashes import model_hash
from tritonstack.operate.invoke.input_files import RequestInputError, read_bytes
from tritonstack.operate.invoke.request_inputs import GivenInputs, read_inputs
from tritonstack.operate.local.dev import require_processor
from tritonstack.operate.shared.session import Session
from tritonstack.triton import TritonInstallation, find_installation, require_isolation
from tritonstack_sizing.errors import SearchError
from tritonstack_sizing.loads.sending import PreparedRequest
from tritonstack_sizing.option_ranges import require_ranges
from tritonstack_sizing.tuning.search import Search, default_runs
from tritonstack_sizing.tuning.search_folders import (
    RunRecord,
    only_search,
    remove_stale_searches,
    searches_dir,
)
from tritonstack_sizing.tuning.settings import (
    Setting,
    SkippedSetting,
    built_settings,
    parts,
    served_settings,
    thread_setting,
)
from tritonstack_sizing.tuning.spaces import Choice, Objective, SearchSpace
from tritonstack_sizing.tuning.variants import Form, FormBuilder, Load, LocalServing


@dataclass(frozen=True)
class TuneOptions:
    """What to search, and how long."""

    objective: Objective = field(default_factory=Objective)
    users: int = 64
    seconds: float = 12.0
    """The time of each run; a configuration that is much worse gets a third of it."""
    most_runs: int | None = None
    budget_s: float | None = None
    """The time of all runs, at most."""
    cores: int | None = None
    texts: Sequence[str] = ()
    inputs: GivenInputs = field(default_factory=GivenInputs)
    seed: int = 1

    def __post_init__(self) -> None:
        require_ranges(
            ("--p99", self.objective.p99_ms),
            ("--rate", self.objective.rate),
            ("--users", self.users),
            ("tune --duration", self.seconds),
            ("--runs", self.most_runs),
            ("--budget", None if self.budget_s is None else self.budget_s / 60),
            ("--cores", self.cores),
            ("--seed", self.seed),
        )


@dataclass(frozen=True)
class TunedTarget:
    """A model, and the endpoint whose variables and vCPUs it gets, if any."""

    model: str
    workspace: Workspace | None = None
    endpoint: str = ""

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables in the environment file."""
        return {} if self.workspace is None else self.workspace.spec.endpoints[self.endpoint].environment

    @property
    def vcpus(self) -> int | None:
        """The vCPUs of the endpoint's instance type."""
        return None if self.workspace is None else self.workspace.spec.endpoints[self.endpoint].instance.vcpus


def objective_of(*, p99_ms: float | None, rate: float | None) -> Objective:
    """Return the objective that options describe."""
    if p99_ms is not None and rate is not None:
        raise CommandLineError(
            "--p99 and --rate exclude each other: at a rate, the lowest p99 is searched",
            remedy="omit one of them",
        )
    return Objective(p99_ms=p99_ms, rate=rate)


def read_texts(file: Path) -> tuple[str, ...]:
    """Return the lines of a file that are not empty."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {file}: {error}", remedy="pass a file in UTF-8", code=RequestInputError.code
        ) from error
    if not any(lines):
        raise UsageError(
            f"{file} has no texts", remedy="write one text per line", code=RequestInputError.code
        )
    return tuple(line for line in lines if line)


def find_tuned(session: Session, name: str, endpoint: str | None, model: str | None) -> TunedTarget:
    """Return the model to tune; raise UsageError if a name is unknown or ambiguous."""
    if endpoint is None:
        if model is not None:
            raise CommandLineError("--model needs an endpoint", remedy="omit one of the two")
        ProjectFiles(session.project).model(name)
        return TunedTarget(name)
    workspace = session.workspace(name)
    require_known(endpoint, workspace.spec.endpoints, f"environment {name!r} has no endpoint")
    spec = workspace.spec.endpoints[endpoint]
    if model is None and len(spec.models) > 1:
        raise CommandLineError(
            f"{endpoint!r} serves several models: {', '.join(spec.models)}",
            remedy="choose one with --model",
        )
    chosen = model or spec.models[0]
    require_known(chosen, spec.models, f"the endpoint {endpoint!r} serves no model")
    if spec.instance.gpus:
        raise MachineError(
            f"{endpoint!r} has GPUs ({spec.instance.name}), and `tune` measures on the CPU of this machine",
            remedy="measure it on AWS with `tritonstack bench`",
        )
    return TunedTarget(chosen, workspace, endpoint)


def cores_for(options: TuneOptions) -> int:
    """Return the cores of the server; raise UsageError if this process has fewer."""
    usable = len(os.sched_getaffinity(0))
    if options.cores is not None and options.cores > usable:
        raise CommandLineError(
            f"--cores {options.cores}: this process can use {usable}",
            remedy=f"write a number up to {usable}",
        )
    return options.cores or usable


RUNS_NAME = "runs.jsonl"
START_S = 4.0
"""Usual time to start and to warm up a server."""


class UntunableError(TritonstackError):
    """A model cannot be tuned: it has no setting to search, or its present ones do not answer."""

    code = SearchError.code


@dataclass(frozen=True)
class TunePlan:
    """A search that can start: what it would measure, and how long that takes."""

    target: TunedTarget
    options: TuneOptions
    models: Mapping[str, Document[ModelSpec]] = field(repr=False)
    settings: tuple[Setting, ...]
    skipped: tuple[SkippedSetting, ...]
    search: Search
    builder: FormBuilder = field(repr=False)
    serving: LocalServing = field(repr=False)
    load: Load = field(repr=False)
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """The time of all runs, at most."""
        return self.search.most_runs * (self.load.seconds + START_S)

    @property
    def folder(self) -> Path:
        """The folder of the search, with its finished runs and builds."""
        return self.builder.folder

    @property
    def record(self) -> RunRecord:
        """The finished runs."""
        return RunRecord(self.folder / RUNS_NAME, self.search.space)

    def values(self, choice: Choice) -> list[tuple[Setting, Any]]:
        """Return the settings with their values."""
        return [
            (setting, setting.dimension.values[place])
            for setting, place in zip(self.settings, choice, strict=True)
        ]


def plan_tuning(
    session: Session,
    name: str,
    endpoint: str | None = None,
    *,
    model: str | None = None,
    options: TuneOptions | None = None,
) -> TunePlan:
    """Build a model, and find out which settings can be searched.

    `name` is the model, or with an endpoint its environment. Builds and runs are kept until `end_search`, so
    that an interrupted search resumes. Raise SearchRunningError while another search runs in the project.
    """
    target, options = find_tuned(session, name, endpoint, model), options or TuneOptions()
    with only_search(session.project):
        remove_stale_searches(session.project)
        require("isal", feature="building models")
        require_processor(session.project, target.model)
        installation = find_installation(home=session.project.server_dir)
        require_isolation(installation)
        models = load_models(session.project, target.model)
        cores = cores_for(options)
        folder = _folder(session, target, models, options, cores, installation.version)
        try:
            return _planned(session, target, models, options, installation, cores, folder)
        except (UntunableError, UsageError):  # the same request fails again
            if not (folder / RUNS_NAME).exists():
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _planned(
    session: Session,
    target: TunedTarget,
    models: Mapping[str, Document[ModelSpec]],
    options: TuneOptions,
    installation: TritonInstallation,
    cores: int,
    folder: Path,
) -> TunePlan:
    real = installation.kind == "container"
    builder = FormBuilder(session, target.model, models, folder)
    form = builder.form(())
    members = parts(form.repository, target.model, models)
    same_cores = target.vcpus in (None, cores)
    settings: list[Setting] = []
    skipped: list[SkippedSetting] = []
    for name, document in models.items():
        served = served_settings(
            document.record, members.get(name), cores=cores, real=real, cores_transfer=same_cores
        )
        built = built_settings(document.record, real=real)
        for kept, unsearched in (served, _buildable(session, builder, built)):
            settings += kept
            skipped += unsearched
    if target.workspace is not None:
        threads = thread_setting(target.variables, cores)
        if same_cores and not isinstance(
            target.workspace.spec.endpoints[target.endpoint], MultiModelEndpoint
        ):
            settings.append(threads)
        else:
            why = "other models use it, too" if same_cores else "the endpoint has other cores"
            skipped.append(SkippedSetting("", OPENMP, why))
    if not settings:
        raise UntunableError(
            f"{target.model!r} has no setting to search: "
            + "; ".join(f"{setting.model} {setting.field}: {setting.reason}" for setting in skipped),
            remedy="measure it on its endpoint with `tritonstack bench`",
        )
    space = SearchSpace(tuple(setting.dimension for setting in settings))
    most = options.most_runs or default_runs(space)
    if options.budget_s is not None:
        most = min(most, max(2, int(options.budget_s / (options.seconds + START_S))))
    serving = LocalServing(installation, cores, target.variables, folder)
    requests = tuple(_requests(models[target.model].record, form, options))
    load = Load(options.users, options.objective.rate, options.seconds, requests, options.seed)
    return TunePlan(
        target=target,
        options=options,
        models=models,
        settings=tuple(settings),
        skipped=tuple(skipped),
        search=Search(space, options.objective, most, options.seed),
        builder=builder,
        serving=serving,
        load=load,
        notes=tuple(_notes(target, cores, real=real)),
    )


def _folder(
    session: Session,
    target: TunedTarget,
    models: Mapping[str, Document[ModelSpec]],
    options: TuneOptions,
    cores: int,
    version: str,
) -> Path:
    """Return the folder of a search: the same for the same files, options, and machine."""
    facts = {
        "model": model_hash(target.model, models),
        "options": repr(options),
        "files": [hashlib.sha256(read_bytes(file)).hexdigest() for file in options.inputs.files],
        "endpoint": [target.endpoint, sorted(target.variables.items()), target.vcpus],
        "machine": [cores, version],
    }
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    folder = searches_dir(session.project) / f"{target.model}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _buildable(
    session: Session, builder: FormBuilder, candidates: tuple[list[Setting], list[SkippedSetting]]
) -> tuple[list[Setting], list[SkippedSetting]]:
    """Build each value of settings that need it; keep the settings whose values can be built."""
    kept, skipped = [], list(candidates[1])
    for setting in candidates[0]:
        now = setting.dimension.values[setting.dimension.start]
        try:
            for value in setting.dimension.values:
                builder.form(((setting, value),) if value != now else ())
        except TritonstackError as error:
            message = error.message.splitlines()[0]
            skipped.append(
                SkippedSetting(setting.model, setting.field, f"{value} cannot be built: {message}")
            )
            session.reporter.note(f"not searched: {setting.dimension.name} {value}: {message}")
        else:
            kept.append(setting)
    return kept, skipped


def _requests(spec: ModelSpec, form: Form, options: TuneOptions) -> Iterator[PreparedRequest]:
    texts = options.texts or (spec.test_texts if spec.takes_texts else ())
    if options.inputs:
        arrays = [read_inputs(options.inputs, form.manifest)]
    elif texts:
        arrays = [{"TEXT": np.array([[text]], dtype=np.object_)} for text in texts]
    else:
        examples = parse_examples(form.examples.read_bytes(), origin=form.examples)
        arrays = [
            {tensor.name: array_of(tensor) for tensor in example.inputs} for example in examples.requests
        ]
    if not arrays:
        raise UntunableError(
            f"the build of {spec.name!r} kept no test input, because all are too large",
            remedy="pass a request with --input or --data",
        )
    yield from map(PreparedRequest.of, arrays)


def _notes(target: TunedTarget, cores: int, *, real: bool) -> Iterator[str]:
    if real:
        yield "served by the image's Triton, with NVIDIA's backends"
    else:
        yield (
            "served by the embedded Triton: its Python backend is that of AWS; its other backends are Python "
            "stand-ins, whose settings are not searched"
        )
    if target.vcpus is not None and target.vcpus != cores:
        yield (
            f"the endpoint has {target.vcpus} vCPUs, the server here {cores} cores: instances and threads "
            "are not searched, because they do not transfer; --cores limits the cores"
        )
