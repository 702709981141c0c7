"""Send load to an endpoint, measure latency and throughput, and compare with an earlier run."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandLineError, NotApplicableError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.results import Internal
from tritonstack.client.client import question_body
from tritonstack.client.codec import JSON_CONTENT_TYPE
from tritonstack.client.streaming import flat_inputs
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.examples import array_of
from tritonstack.operate.invoke.invocation_targets import find_target
from tritonstack.operate.invoke.invoke import InvokeOptions, ModelRequest
from tritonstack.operate.invoke.request_inputs import GivenInputs, read_inputs
from tritonstack.operate.shared.session import Session
from tritonstack_sizing.errors import NoMeasurementsError
from tritonstack_sizing.loads.arrivals import (
    MAX_REQUESTS,
    Trace,
    constant,
    poisson,
    read_trace,
)
from tritonstack_sizing.loads.captures import read_capture
from tritonstack_sizing.loads.charts import draw_runs
from tritonstack_sizing.loads.comparing import RunComparison, compare_runs
from tritonstack_sizing.loads.evidence import LoadRecorder, open_recorder
from tritonstack_sizing.loads.runs import LoadRun, SavedRuns, load_runs, summarize
from tritonstack_sizing.loads.sending import (
    LoadSender,
    PreparedRequest,
    Sent,
    closed_loop,
    open_loop,
    run_loop,
)
from tritonstack_sizing.option_ranges import require_ranges

Arrays = Mapping[str, np.ndarray[Any, Any]]
_SCALED_OUT_S = 15 * 60
"""Additional instances stay at least this long: target tracking removes them after 15 quiet minutes."""
_DEFAULT_S = 30.0


class NoAnswersError(TritonstackError):
    """A load test got no answer to measure."""

    code = NoMeasurementsError.code

    def __init__(self, message: str, *, remedy: str, saved: SavedRuns) -> None:
        super().__init__(message, remedy=remedy)
        self.saved = saved
        """What was sent, and its errors."""


@dataclass(frozen=True)
class Period:
    """The time of captured requests."""

    begin: datetime
    end: datetime


@dataclass(frozen=True)
class LoadOptions:
    """The load: one kind, at one level or several; by default, one user."""

    users: Sequence[int] = ()
    """Closed loop: this many users, each of whom sends as soon as the previous answer has arrived."""
    rates: Sequence[float] = ()
    """Open loop: this many requests per second, whether or not earlier ones are answered."""
    trace: Path | None = None
    """Open loop: arrivals from a CSV file."""
    replay: Period | None = None
    """Open loop: captured requests of the endpoint, when they arrived."""
    seconds: float | None = None
    """The time of each level, 30 by default; a trace and a replay bring their own."""
    is_even: bool = False
    """Whether a rate means even distances instead of random ones."""
    speed: float = 1.0
    """How much faster than recorded a trace or replay is sent."""
    inputs: GivenInputs = field(default_factory=GivenInputs)
    timeout_s: float = 65.0
    """The longest wait for an answer; SageMaker ends requests after 60 seconds."""
    seed: int = 1
    """The start of the random numbers: the same number gives the same arrivals."""

    def __post_init__(self) -> None:
        require_ranges(
            *(("--users", users) for users in self.users),
            *(("--rate", rate) for rate in self.rates),
            ("--duration", self.seconds),
            ("--speed", self.speed),
            ("--timeout", self.timeout_s),
            ("--seed", self.seed),
        )
        rate, seconds = max(self.rates, default=0.0), self.seconds or _DEFAULT_S
        if rate * seconds > MAX_REQUESTS:
            raise CommandLineError(
                f"--rate {rate:g} sends {rate * seconds:,.0f} requests in {seconds:g} seconds; a level has "
                f"at most {MAX_REQUESTS:,}",
                remedy="shorten --duration",
            )


@dataclass(frozen=True)
class _Level:
    """One run to do: its name, its time, and what starts it."""

    load: str
    seconds: float
    is_trace: bool
    rate: float | None
    """Requests due per second; None for a closed loop."""
    start: Callable[[LoadSender, Callable[[int], None]], Coroutine[Any, Any, Sent]] = field(repr=False)


@dataclass(frozen=True)
class BenchPlan:
    """What a load test would send, and what that may cost."""

    workspace: Workspace = field(repr=False)
    endpoint: str
    model: ModelRequest = field(repr=False)
    options: LoadOptions
    levels: tuple[_Level, ...]
    requests: tuple[PreparedRequest, ...] = field(repr=False)
    cost: str
    """What the load may cost on AWS; empty for the local cloud."""

    @property
    def seconds(self) -> float:
        """The time of all levels."""
        return sum(level.seconds for level in self.levels)


@dataclass(frozen=True)
class Benchmark(SavedRuns):
    """What a load test measured."""

    comparisons: tuple[RunComparison, ...] = ()
    before: Internal[tuple[LoadRun, ...]] = field(default=(), repr=False)
    """The earlier runs under the same loads."""
    recorded: str | None = None
    """The event that records it in the environment's bucket."""

    @property
    def is_worse(self) -> bool:
        """Whether a comparison shows a worse result."""
        return any(comparison.verdict in ("worse", "mixed") for comparison in self.comparisons)

    def chart(self) -> str:
        """Return an SVG document."""
        title = f"{self.model} on {self.endpoint}, measured on {self.measured_on}"
        return draw_runs(title, self.runs, before=self.before)


def plan_bench(
    session: Session,
    environment: str,
    endpoint: str,
    texts: Sequence[str] = (),
    *,
    instance: str | None = None,
    model: str | None = None,
    variant: str | None = None,
    options: LoadOptions | None = None,
) -> BenchPlan:
    """Prepare a load test; nothing is sent.

    Without texts or inputs, the requests are the model's test inputs: its texts, or the examples that its
    build stored.
    """
    options = options or LoadOptions()
    _require_one_kind(options, texts)
    workspace = session.workspace(environment, instance)
    target = find_target(workspace, endpoint, model=model, variant=variant)
    if target.asynchronous:
        raise NotApplicableError(
            f"the endpoint {endpoint!r} is asynchronous: it queues requests, and has no latency to measure",
            remedy="measure the model on a synchronous endpoint; `tritonstack status` shows the queue",
        )
    request = ModelRequest(session.cloud(workspace.spec), workspace, endpoint, target, InvokeOptions())
    if options.replay is not None:
        levels, requests = _replayed(request, options, options.replay, variant)
    else:
        levels = tuple(_levels(options))
        requests = tuple(_requests(request, tuple(texts), options.inputs))
    seconds = sum(level.seconds for level in levels)
    cost = _cost(workspace, endpoint, seconds) if workspace.spec.costs_money else ""
    return BenchPlan(workspace, endpoint, request, options, levels, requests, cost)


def bench(
    session: Session,
    plan: BenchPlan,
    *,
    compare: Path | None = None,
    record: bool = False,
) -> Benchmark:
    """Send the load of a plan, level by level; `compare` names a saved run to compare with.

    With `record`, write an event to the environment's bucket, for the gate `performance` of promotions. Raise
    NoAnswersError if the endpoint answers nothing; the error has what was sent, and nothing is recorded.
    """
    earlier = {} if compare is None else _comparable(plan, compare)
    recorder = open_recorder(plan.model) if record else None
    began = datetime.now(UTC)
    runs = tuple(_measured(recorder, session, plan, level) for level in plan.levels)
    target, spec = plan.model.target, plan.workspace.spec
    saved = SavedRuns(
        environment=spec.name,
        endpoint=target.endpoint,
        model=target.model.name,
        digest=plan.model.digest,
        instance=spec.endpoints[plan.endpoint].instance.name,
        began=began.isoformat(timespec="seconds"),
        runs=runs,
        real_instances=spec.real_instances,
        machine="" if spec.real_instances else _this_machine(),
    )
    for run in runs:
        if not run.latencies.sum():
            errors = ", ".join(f"{name} ({count})" for name, count in run.errors.items()) or "none"
            raise NoAnswersError(
                f"{target.endpoint} answered no request under {run.load}; errors: {errors}",
                remedy=f"run `tritonstack invoke {plan.workspace.cli_arguments} {plan.endpoint}` to see one "
                "error whole, and `tritonstack logs` for the container's; send less if they are timeouts",
                saved=saved,
            )
    pairs = [(earlier[run.load], run) for run in runs if run.load in earlier]
    event = recorder.record() if recorder else None
    return Benchmark(
        **vars(saved),
        comparisons=tuple(compare_runs(*pair) for pair in pairs),
        before=tuple(pair[0] for pair in pairs),
        recorded=event.key if event else None,
    )


def _this_machine() -> str:
    """Describe the processor that the local cloud shares with the load generator."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return f"{os.cpu_count()} x {value.strip()}"
    return f"{os.cpu_count()} x {platform.machine()}"


def _comparable(plan: BenchPlan, file: Path) -> dict[str, LoadRun]:
    """Return the saved runs by load; raise UsageError if none has a load of the plan."""
    earlier = {run.load: run for run in load_runs(file).runs}
    if not any(level.load in earlier for level in plan.levels):
        raise CommandLineError(
            f"{file} has other loads: {'; '.join(earlier)}",
            remedy=f"send one of them; the options say: {'; '.join(level.load for level in plan.levels)}",
        )
    return earlier


def _measured(recorder: LoadRecorder | None, session: Session, plan: BenchPlan, level: _Level) -> LoadRun:
    send = partial(_run, session, plan, level)
    return recorder.measure(send, rate=level.rate, is_trace=level.is_trace) if recorder else send()


def _run(session: Session, plan: BenchPlan, level: _Level) -> LoadRun:
    target = plan.model.target
    facts = target.client(plan.model.cloud.client("sagemaker-runtime")).request_facts
    with session.reporter.step(f"{level.load}, {level.seconds:g} s") as step:
        sender = LoadSender(plan.model.cloud, facts, plan.requests, timeout_s=plan.options.timeout_s)

        async def sent() -> Sent:
            try:
                return await level.start(
                    sender, lambda second: step.update(f"second {second} of {level.seconds:g}")
                )
            finally:
                await sender.close()

        run = summarize(run_loop(sent()), load=level.load, seconds=level.seconds, is_trace=level.is_trace)
        p50 = run.percentiles_ms()[50.0]
        step.detail = f"{run.answered_per_s:.1f} per second, p50 {p50:.1f} ms" if p50 == p50 else "no answers"  # noqa: PLR0124 - NaN
    return run


def _require_one_kind(options: LoadOptions, texts: Sequence[str]) -> None:
    kinds = {
        "--users": bool(options.users),
        "--rate": bool(options.rates),
        "--trace": options.trace is not None,
        "--replay": options.replay is not None,
    }
    options_given = [name for name, is_asked in kinds.items() if is_asked]
    problem = ""
    if len(options_given) > 1:
        problem = f"{' and '.join(options_given)} exclude each other"
    elif texts and options.inputs:
        problem = "texts and other inputs exclude each other"
    elif options.replay is not None and (texts or options.inputs):
        problem = "--replay sends captured requests, and takes no inputs"
    elif options.seconds is not None and {"--trace", "--replay"} & set(options_given):
        problem = f"{options_given[0]} has its own duration"
    elif options.is_even and not options.rates:
        problem = "--even applies to --rate only"
    elif options.speed != 1 and not {"--trace", "--replay"} & set(options_given):
        problem = "--speed applies to --trace and --replay only"
    if problem:
        raise CommandLineError(problem, remedy="omit one of them")


def _levels(options: LoadOptions) -> Iterator[_Level]:
    seconds = options.seconds or _DEFAULT_S
    if options.trace is not None:
        trace = read_trace(options.trace, seed=options.seed)
        yield _open(f"trace {options.trace.name}", _faster(trace, options.speed), is_trace=True)
        return
    for rate in options.rates:
        kind = "evenly" if options.is_even else "at random"
        arrivals = constant(rate, seconds) if options.is_even else poisson(rate, seconds, seed=options.seed)
        yield _open(f"open loop, {rate:g} per second {kind}", arrivals, rate=rate)
    for users in options.users or (() if options.rates else (1,)):
        yield _Level(
            f"closed loop, {users} user{'s' if users > 1 else ''}",
            seconds,
            False,
            None,
            partial(_closed, users=users, seconds=seconds),
        )


def _replayed(
    request: ModelRequest, options: LoadOptions, period: Period, variant: str | None
) -> tuple[tuple[_Level, ...], tuple[PreparedRequest, ...]]:
    spec = request.workspace.spec
    capture = spec.endpoints[request.endpoint].data_capture
    prefix = naming.capture_prefix(request.target.endpoint)
    captured = read_capture(
        request.cloud.client("s3"),
        bucket=spec.data_bucket,
        prefix=f"{prefix}{request.target.endpoint}/{variant}/" if variant else prefix,
        begin=period.begin,
        end=period.end,
        seed=options.seed,
    )
    share = "" if capture is None else f", {capture.sampling_percent} % of the requests"
    name = f"replay from {period.begin.astimezone(UTC):%Y-%m-%d %H:%M:%S}{share}"
    trace = _faster(captured.trace, options.speed)
    return (_open(name, trace, is_trace=True, in_order=True),), captured.requests


def _open(
    load: str, trace: Trace, *, rate: float | None = None, is_trace: bool = False, in_order: bool = False
) -> _Level:
    def start(sender: LoadSender, on_second: Callable[[int], None]) -> Coroutine[Any, Any, Sent]:
        send = sender.send_in_order if in_order else sender.send
        return open_loop(send, trace.offsets, on_second=on_second)

    mean = len(trace.offsets) / trace.seconds if trace.seconds else 0.0
    return _Level(load, trace.seconds, is_trace, mean if rate is None else rate, start)


def _closed(
    sender: LoadSender, on_second: Callable[[int], None], *, users: int, seconds: float
) -> Coroutine[Any, Any, Sent]:
    return closed_loop(sender.send, users=users, seconds=seconds, on_second=on_second)


def _faster(trace: Trace, speed: float) -> Trace:
    return Trace(trace.offsets / speed, trace.seconds / speed)


def _requests(
    request: ModelRequest, texts: tuple[str, ...], inputs: GivenInputs
) -> Iterator[PreparedRequest]:
    model = request.target.model
    if model.generates and not inputs:
        for text in texts or model.test_texts:
            yield PreparedRequest(question_body(text, {}), JSON_CONTENT_TYPE)
    elif inputs:
        yield _encoded(model, read_inputs(inputs, request.manifest))
    elif model.takes_texts:
        for text in texts or model.test_texts:
            yield _encoded(model, {"TEXT": np.array([[text]], dtype=np.object_)})
    elif texts:
        for text in texts:
            yield _encoded(model, request.as_only_input([text]))
    else:
        for example in request.examples().requests:
            alone = {"sequence_id": 1, "sequence_start": True, "sequence_end": True}
            yield _encoded(
                model,
                {tensor.name: array_of(tensor) for tensor in example.inputs},
                alone if example.sequence else {},
            )


def _encoded(
    model: ModelSpec, inputs: Arrays, parameters: Mapping[str, Any] | None = None
) -> PreparedRequest:
    if model.streams:
        return PreparedRequest(json.dumps(flat_inputs(inputs)).encode(), JSON_CONTENT_TYPE)
    return PreparedRequest.of(inputs, parameters)


def _cost(workspace: Workspace, endpoint: str, seconds: float) -> str:
    """Return what a load may cost on AWS: the instances that scaling adds for it."""
    spec = workspace.spec.endpoints[endpoint]
    scaling, kind = spec.scaling, spec.instance.name
    more = scaling.highest - scaling.lowest
    if more <= 0:
        return f"no additional cost: the endpoint keeps its {scaling.lowest} instances of {kind}"
    hours = more * (seconds + _SCALED_OUT_S + scaling.scale_in_cooldown_s) / 3600
    price = workspace.spec.prices.get(kind)
    amount = (
        f"about {hours * price:.2f} in the currency of `prices`"
        if price
        else f"its price is not in `prices` of {workspace.spec.name}.yaml"
    )
    return (
        f"the load may scale the endpoint from {scaling.lowest} to {scaling.highest} instances of {kind}: "
        f"up to {hours:.1f} instance hours; {amount}"
    )


def parse_period(text: str) -> Period:
    """Return the period `BEGIN/END`, both in ISO 8601, or `BEGIN/` and a number of minutes such as `30m`."""
    begin, separator, end = text.partition("/")
    try:
        started = parse_time(begin)
        ended = started + timedelta(minutes=float(end[:-1])) if end.endswith("m") else parse_time(end)
        if not separator or ended <= started:
            raise ValueError("the end is not after the begin")
    except (ValueError, OverflowError) as error:
        raise CommandLineError(
            f"{text!r} is not a period: {error}",
            remedy="write BEGIN/END, such as 2026-11-24T09:00/2026-11-24T09:30, or 2026-11-24T09:00/30m",
        ) from error
    return Period(started, ended)


def parse_time(text: str) -> datetime:
    """Return a time in ISO 8601; in UTC unless it names an offset."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
