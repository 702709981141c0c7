"""What to tune and how: the options of a search, and the model or endpoint that it is for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tritonstack.base.error_kinds import CommandLineError, MachineError, UnknownNameError
from tritonstack.base.errors import UsageError
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.invoke.input_files import RequestInputError
from tritonstack.operate.invoke.request_inputs import GivenInputs
from tritonstack.operate.shared.session import Session
from tritonstack_sizing.option_ranges import (
    LEAST_MINUTES,
    LEAST_P99_MS,
    RATES,
    RUN_S,
    RUNS,
    USERS,
    require_range,
    require_seed,
)
from tritonstack_sizing.tuning.objectives import Objective


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
        require_range("--p99", self.objective.p99_ms, LEAST_P99_MS)
        require_range("--rate", self.objective.rate, *RATES)
        require_range("--users", self.users, *USERS)
        require_range("--duration", self.seconds, *RUN_S)
        require_range("--runs", self.most_runs, *RUNS)
        require_range("--budget", None if self.budget_s is None else self.budget_s / 60, LEAST_MINUTES)
        require_range("--cores", self.cores, 1)
        require_seed(self.seed)


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
    spec = workspace.spec.endpoints.get(endpoint)
    if spec is None:
        raise UnknownNameError(
            f"{name} has no endpoint {endpoint!r}",
            remedy=f"choose one of {', '.join(workspace.spec.endpoints)}",
        )
    if model is None and len(spec.models) > 1:
        raise CommandLineError(
            f"{endpoint!r} serves several models: {', '.join(spec.models)}",
            remedy="choose one with --model",
        )
    chosen = model or spec.models[0]
    if chosen not in spec.models:
        raise UnknownNameError(
            f"{endpoint!r} does not serve {chosen!r}",
            remedy=f"choose one of {', '.join(spec.models)}",
        )
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
