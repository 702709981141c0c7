"""Charts and graphs of the page, each with its numbers as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tritonstack.files.records.events import Event, LoadTest
from tritonstack.files.records.manifests import CandidateReport, LatencyReport, Manifest
from tritonstack.operate.project.inspection import GraphStep
from tritonstack.operate.report.page.svg_graphs import GraphEdge, GraphNode, draw_graph
from tritonstack.operate.report.page.texts import minutes, moment, number
from tritonstack.operate.report.rollout_history import PastRollout
from tritonstack.operate.report.svg_charts import (
    ChartColors,
    ChartLine,
    ChartStyle,
    LineChart,
    Point,
    draw_chart,
    linear_axis,
    round_step,
)

COLORS = ChartColors(
    background="var(--panel)",
    text="var(--text)",
    muted="var(--muted)",
    grid="var(--grid)",
    lines=tuple(f"var(--series-{number})" for number in range(1, 7)),
)
_STYLE = ChartStyle(COLORS, width=520, height=250, left=56, right=28, legend=False)
_LANES = ChartStyle(COLORS, width=520, height=180, left=150, right=28, legend=False)
_SERVED = Markup('<span class="chip good">served</span> {}')
_LEAST_ERROR = 1e-16
_SHOWN_TESTS = 3
Ticks = Sequence[tuple[float, str]]
Scale = Callable[[float], float]


@dataclass(frozen=True)
class Numbers:
    """The table of a figure; the last columns are `numbers`."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: int = 0


@dataclass(frozen=True)
class LegendMark:
    """How a legend names a line."""

    name: str
    color: str
    is_dots: bool
    dashed: bool


@dataclass(frozen=True)
class Figure:
    """A drawing with its numbers; without a drawing, only these are shown."""

    data: Numbers
    drawing: Markup | None = None
    kind: str = "chart"
    title: str = ""
    legend: Sequence[LegendMark] = ()


def _figure(chart: LineChart, data: Numbers, *, style: ChartStyle = _STYLE) -> Figure:
    marks = [
        LegendMark(line.name, COLORS.lines[index % len(COLORS.lines)], line.is_dots, line.dashed)
        for index, line in enumerate(chart.lines)
    ]
    drawing = Markup(draw_chart(chart, style))  # noqa: S704 - it escapes its texts
    return Figure(data, drawing, legend=marks if any(mark.name for mark in marks) else ())


def ensemble_graph(model: str, steps: Sequence[GraphStep], manifest: Manifest | None) -> Figure:
    """Return the steps of an artifact as a graph, with the tensors on its edges."""
    top = [step for step in steps if step.depth == 1] or list(steps[:1])
    entry = steps[0]
    shapes = {}
    for tensor in (*manifest.inputs, *manifest.outputs) if manifest else ():
        shapes[tensor.name] = f"{tensor.name} {tensor.datatype}{list(tensor.shape)}"
    nodes = [GraphNode("", "request"), *_step_nodes(top), GraphNode(">", "response")]
    makers = {tensor: str(index) for index, step in enumerate(top) for tensor in step.outputs}
    used: dict[tuple[str, str], list[str]] = {}
    for index, step in enumerate(top):
        for name in step.inputs:
            used.setdefault((makers.get(name, ""), str(index)), []).append(shapes.get(name, name))
    for name in entry.outputs:
        used.setdefault((makers.get(name, ""), ">"), []).append(shapes.get(name, name))
    edges = [GraphEdge(source, target, tuple(lines)) for (source, target), lines in used.items()]
    title = f"graph of {model}: {', '.join(step.model for step in top)}"
    drawing = Markup(draw_graph(title, nodes, edges, COLORS))  # noqa: S704 - it escapes its texts
    rows = [(step.model, step.kind, ", ".join(step.inputs), ", ".join(step.outputs)) for step in steps]
    data = Numbers(f"Steps of {model}", ("Model", "Backend", "Reads", "Writes"), rows)
    return Figure(data, drawing, "graph", title)


def _step_nodes(steps: Sequence[GraphStep]) -> list[GraphNode]:
    return [GraphNode(str(index), step.model, step.kind) for index, step in enumerate(steps)]


def candidate_chart(model: str, candidates: Sequence[CandidateReport]) -> Figure:
    """Return the error and latency of every measured candidate, and the ones that no other beats."""
    shape = _common_shape(candidates)
    points = [
        (candidate, candidate.latency_ms[shape], max(1 - candidate.parity.min_cosine, _LEAST_ERROR))
        for candidate in candidates
        if candidate.parity is not None and shape in candidate.latency_ms
    ]
    rows = [
        (
            f"{index}. {candidate.name}",
            candidate.precision,
            number(candidate.latency_ms.get(shape), "{:.2f} ms"),
            number(1 - candidate.parity.min_cosine if candidate.parity else None, "{:.1e}"),
            number(candidate.size_bytes / 1e6, "{:.1f} MB"),
            _SERVED.format(candidate.reason) if candidate.kept else candidate.reason,
        )
        for index, candidate in enumerate(candidates, 1)
    ]
    head = ("Candidate", "Precision", "CPU time", "1 − cosine", "Graph", "Outcome")
    data = Numbers(f"Candidates of {model}", head, rows)
    if not points:
        return Figure(data)
    labels = {id(candidate): str(index) for index, candidate in enumerate(candidates, 1)}
    groups = (
        ("measured", [point for point in points if not point[0].kept]),
        ("served", [point for point in points if point[0].kept]),
    )
    lines = [ChartLine("no other is better in both", _front([(x, y) for _, x, y in points]), dashed=True)]
    for name, some in groups:
        if some:
            texts = [labels[id(candidate)] for candidate, *_ in some]
            lines.append(ChartLine(name, [(x, y) for _, x, y in some], is_dots=True, labels=texts))
    y_ticks, y_scale = _decades([y for *_, y in points])
    x_ticks, x_scale = linear_axis(max(x for _, x, _ in points))
    title = f"1 − cosine, by CPU time in ms ({shape})"
    return _figure(LineChart(title, lines, x_ticks, x_scale, y_ticks, y_scale), data)


def latency_chart(model: str, latency: Sequence[LatencyReport]) -> Figure:
    """Return the latency of served requests by batch size, as the build measured it."""
    ordered = sorted(latency, key=lambda report: report.batch)
    rows = [
        (
            str(report.batch),
            number(report.p50_ms, "{:.2f}"),
            number(report.p99_ms, "{:.2f}"),
            str(report.requests),
        )
        for report in ordered
    ]
    head = ("Batch", "p50 in ms", "p99 in ms", "Requests")
    data = Numbers(f"Latency of {model} in the build", head, rows, numbers=3)
    if len(ordered) < 2:
        return Figure(data)
    last = math.log2(ordered[-1].batch) or 1.0
    chart = LineChart(
        "ms per request, by batch size",
        [
            ChartLine("p50", [(report.batch, report.p50_ms) for report in ordered]),
            ChartLine("p99", [(report.batch, report.p99_ms) for report in ordered]),
        ],
        [(report.batch, str(report.batch)) for report in ordered],
        lambda batch: math.log2(batch) / last,
    )
    return _figure(chart, data)


def _instances(test: LoadTest) -> str:
    """Return what answered, for example `1 to 4 × ml.c7i.xlarge`."""
    lowest = min((level.lowest_instances for level in test.levels), default=0)
    highest = max((level.highest_instances for level in test.levels), default=0)
    count = str(highest) if lowest == highest else f"{lowest} to {highest}"
    return f"{count} × {test.instance_type}" + ("" if test.real_instances else " (local cloud)")


def load_test_chart(model: str, events: Sequence[Event]) -> Figure:
    """Return the latency by answers per second of the latest load tests."""
    tests = [(event, event.load_test) for event in events[:_SHOWN_TESTS] if event.load_test is not None]
    lines, rows = [], []
    for event, test in tests:
        name = f"{event.environment}, {moment(event.at)}, {_instances(test)}"
        levels = sorted(test.levels, key=lambda level: level.answered_per_s)
        for quantile in ("p50", "p99"):
            values = [(level.answered_per_s, getattr(level, f"{quantile}_ms")) for level in levels]
            measured = [(rate, value) for rate, value in values if value is not None]
            if measured:
                lines.append(ChartLine(f"{quantile}: {name}", measured, dashed=quantile == "p50"))
        rows += [
            (
                f"{level.load}, {moment(event.at)}",
                number(level.answered_per_s, "{:,.1f}"),
                number(level.p50_ms, "{:.1f}"),
                number(level.p99_ms, "{:.1f}"),
                number(level.failed_percent, "{:.2f} %"),
            )
            for level in levels
        ]
    head = ("Load", "Answers/s", "p50 in ms", "p99 in ms", "Failed")
    data = Numbers(f"Load tests of {model}", head, rows, numbers=4)
    if not lines:
        return Figure(data)
    ticks, scale = linear_axis(max(x for line in lines for x, _ in line.points))
    return _figure(LineChart("latency in ms, by answers per second", lines, ticks, scale), data)


def _rollout_period(rollout: PastRollout) -> tuple[Ticks, Scale]:
    """Return the axis of all that happened around a rollout."""
    times = [second for second, _ in rollout.requests]
    first = min([0.0, *times, *(alarm.begin_s for alarm in rollout.firing_alarms)])
    last = max([1.0, rollout.seconds, *times, *(alarm.end_s for alarm in rollout.firing_alarms)])
    return _period(first, last)


def share_chart(rollout: PastRollout) -> Figure:
    """Return the planned shift of a completed rollout, which ends with it."""
    points, (ticks, scale) = rollout.planned_shift, _period(0.0, rollout.seconds)
    shares = [(0.0, "0"), (50.0, "50"), (100.0, "100")]
    chart = LineChart(
        "planned traffic of the new instances in %",
        [ChartLine("", points)],
        ticks,
        scale,
        shares,
        lambda share: share / 108,
    )
    rows = [(minutes(second), f"{share:.0f} %") for second, share in points]
    return _figure(
        chart, Numbers("Planned traffic of the new instances", ("After", "Share"), rows, numbers=1)
    )


def request_chart(rollout: PastRollout) -> Figure:
    """Return the requests of a rollout, and the server errors among them."""
    errors, (ticks, scale) = dict(rollout.errors), _rollout_period(rollout)
    rows = [(minutes(at), f"{value:,.0f}", f"{errors.get(at, 0):,.0f}") for at, value in rollout.requests]
    name = "requests per minute"
    if rollout.period_s > 60:  # CloudWatch keeps values per minute for 15 days
        name += f", averages over {rollout.period_s // 60} min"
    data = Numbers(name.capitalize(), ("After", "Requests", "Server errors"), rows, numbers=2)
    lines = [
        ChartLine("requests", rollout.requests),
        ChartLine("server errors", [(at, errors.get(at, 0.0)) for at, _ in rollout.requests], dashed=True),
    ]
    return _figure(LineChart(name, lines, ticks, scale), data)


def alarm_chart(rollout: PastRollout) -> Figure:
    """Return when which alarm was on, one lane per alarm."""
    ticks, scale = _rollout_period(rollout)
    lanes = {name: len(rollout.alarms) - index for index, name in enumerate(rollout.alarms)}
    lines = [
        ChartLine(
            _alarm_id(rollout, period.alarm),
            [(period.begin_s, lanes[period.alarm]), (period.end_s, lanes[period.alarm])],
        )
        for period in rollout.firing_alarms
    ]
    chart = LineChart(
        "alarms in state ALARM",
        lines,
        ticks,
        scale,
        [(lane, _alarm_id(rollout, name)) for name, lane in lanes.items()],
        lambda lane: lane / (len(lanes) + 1),
    )
    rows = [
        (_alarm_id(rollout, period.alarm), minutes(period.begin_s), minutes(period.end_s))
        for period in rollout.firing_alarms
    ]
    data = Numbers("Alarms in state ALARM", ("Alarm", "From", "To"), rows, numbers=2)
    return _figure(chart, data, style=_LANES)


def quiet_alarms(rollout: PastRollout) -> list[str]:
    """Return the alarms that are known to have stayed off, if none was on."""
    return alarm_ids([name for name in rollout.alarms if name not in rollout.unknown_alarms], rollout)


def alarm_ids(names: Sequence[str], rollout: PastRollout) -> list[str]:
    """Return the names of alarms without that of their endpoint."""
    return [_alarm_id(rollout, name) for name in names]


def _alarm_id(rollout: PastRollout, name: str) -> str:
    """Return an alarm's name without that of its endpoint."""
    return name.removeprefix(f"{rollout.endpoint}-")


def _period(first: float, last: float) -> tuple[Ticks, Scale]:
    """Return an axis of seconds or minutes; those before the start are negative."""
    unit, symbol = (1, "s") if last - first < 120 else (60, "min")
    step = round_step((last - first) / unit / 6) * unit
    begin = math.floor(first / step) * step
    ticks = [(begin + index * step, f"{(begin + index * step) / unit:g} {symbol}") for index in range(8)]
    length = max(last - begin, 1e-9)
    return [tick for tick in ticks if tick[0] <= last], lambda second: (second - begin) / length


def _decades(values: Sequence[float]) -> tuple[Ticks, Scale]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    step = max(1, round((high - low) / 5))
    ticks = [(10.0**power, f"1e{power}") for power in range(low, high + 1, step)]
    return ticks, lambda value: (math.log10(value) - low) / (high - low) * 0.94 + 0.03


def _common_shape(candidates: Sequence[CandidateReport]) -> str:
    """Return the largest input shape that most candidates were measured with."""
    counts: dict[str, int] = {}
    for candidate in candidates:
        for shape in candidate.latency_ms:
            counts[shape] = counts.get(shape, 0) + 1
    return max(counts, key=lambda shape: (counts[shape], _elements(shape)), default="")


def _elements(shape: str) -> int:
    return math.prod(int(size) for size in shape.split("x") if size.isdigit())


def _front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other beats in both values, by x."""
    front: list[Point] = []
    for x, y in sorted(points):
        if not front or y < front[-1][1]:
            front.append((x, y))
    return front
