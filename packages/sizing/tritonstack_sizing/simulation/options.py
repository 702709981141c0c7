"""The options of a simulation, and how they are written on the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import UsageError
from tritonstack.facts.scaling_rules import PROVISIONING_S
from tritonstack_sizing.loads.bench import Period, parse_time
from tritonstack_sizing.option_ranges import require_range, require_ranges
from tritonstack_sizing.simulation.simulation import ScalingRun, TimeWindow

_LONGEST_S = 1e9
_SECONDS = {
    unit: Decimal(length)
    for unit, length in {"ms": "0.001", "s": "1", "m": "60", "h": "3600", "d": "86400"}.items()
}


@dataclass(frozen=True)
class ScalingObjective:
    """What a policy must hold over the whole load."""

    p99_ms: float | None = None
    lost_share: float = 0.0
    """The highest share of lost requests."""

    def holds(self, run: ScalingRun) -> bool:
        """Whether a result meets it."""
        is_fast = self.p99_ms is None or (run.p99_ms is not None and run.p99_ms <= self.p99_ms)
        return is_fast and run.lost_share <= self.lost_share

    def describe(self) -> str:
        """Return it in the form of the option."""
        latency = "" if self.p99_ms is None else f"p99={_decimal(self.p99_ms):f}ms,"
        lost = f"{_decimal(self.lost_share, times=100):f}%" if self.lost_share else "0"
        return f"{latency}lost={lost}"


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """The load, the service curve, events, and an objective."""

    trace: Path | None = None
    """A CSV file, as for `bench`."""
    replay: Period | None = None
    """Captured requests of the endpoint."""
    history: Period | None = None
    """Recorded minutes of CloudWatch: the simulation is compared with them."""
    bench: Path | None = None
    """A saved result of `bench`, measured on one instance; default: the manifest's latencies."""
    begin: datetime | None = None
    """The time of the first second of a trace, for schedules; a Monday, 00:00 UTC, by default."""
    factor: float = 1.0
    """How many times as many requests."""
    provisioning_s: float = PROVISIONING_S
    loading_s: float | None = None
    """Time to load the model on a new instance; default: from the artifact's size."""
    rollouts: Sequence[float] = ()
    """When updates of the endpoint begin, in seconds."""
    no_capacity: Sequence[TimeWindow] = ()
    """When AWS has no capacity."""
    popularity: Mapping[str, float] = field(default_factory=dict)
    """Shares of the requests by model, on a multi-model endpoint; default: equal."""
    objective: ScalingObjective | None = None
    """Search for the cheapest policy that holds it."""
    seed: int = 1

    def __post_init__(self) -> None:
        loads = {"--trace": self.trace, "--replay": self.replay, "--history": self.history}
        names = [name for name, value in loads.items() if value is not None]
        if len(names) != 1:
            raise CommandLineError(
                f"{' and '.join(names)} exclude each other" if names else "there is no load to simulate",
                remedy="keep one"
                if names
                else "add --trace FILE, --replay BEGIN/END, or --history BEGIN/END",
            )
        if self.begin is not None and self.trace is None:
            raise CommandLineError(
                f"--begin sets the time of a trace; {names[0]} has its own",
                remedy="omit --begin",
            )
        if self.history is not None and self.factor != 1:
            raise CommandLineError(
                "--history compares with what happened, and takes no --factor",
                remedy="omit --factor, or save the load as a trace",
            )
        require_ranges(
            ("--factor", self.factor),
            ("--provisioning", self.provisioning_s),
            ("--loading", self.loading_s),
            *(("--rollout-at", at) for at in self.rollouts),
            *(("--no-capacity", at) for window in self.no_capacity for at in (window.begin, window.end)),
            ("--begin, year", None if self.begin is None else self.begin.year),
            ("--seed", self.seed),
        )


def parse_objective(text: str) -> ScalingObjective:
    """Return the objective `p99=250ms,lost=0`; lost may be a percentage."""
    p99_ms: float | None = None
    lost: float | None = None
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name == "p99":
            p99_ms = float(_duration_s(value, "--objective") * 1000)
        elif name == "lost" and re.fullmatch(r"(?:\d+(?:\.\d+)?|\.\d+)%|0", value):
            lost = float(Decimal(value.removesuffix("%")) / 100)
        else:
            raise _invalid("--objective", text, "write for example p99=250ms,lost=0 or p99=1s,lost=0.1%")
    if (p99_ms is not None and p99_ms <= 0) or (lost is not None and lost >= 1):
        raise _invalid("--objective", text, "write for example p99=250ms,lost=0 or p99=1s,lost=0.1%")
    return ScalingObjective(p99_ms, lost or 0.0)


def parse_seconds(text: str, option: str) -> float:
    """Return the seconds of a duration such as 250ms, 90s, 20m, or 2h."""
    return float(_duration_s(text, option))


def _duration_s(text: str, option: str) -> Decimal:
    duration = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)(ms|s|m|h|d)", text.strip())
    if duration is None:
        raise _invalid(option, text, "write a duration such as 250ms, 90s, 20m, or 2h")
    seconds = Decimal(duration[1]) * _SECONDS[duration[2]]
    require_range(option, float(seconds), 0, _LONGEST_S)
    return seconds


def parse_window(text: str) -> TimeWindow:
    """Return the part `BEGIN/LENGTH` of the simulated time, such as 2h/30m."""
    begin, separator, length = text.partition("/")
    if not separator:
        raise _invalid("--no-capacity", text, "write BEGIN/LENGTH, such as 2h/30m")
    start = parse_seconds(begin, "--no-capacity")
    return TimeWindow(start, start + parse_seconds(length, "--no-capacity"))


def parse_popularity(texts: Sequence[str]) -> dict[str, float]:
    """Return shares by model from `MODEL=SHARE`."""
    shares = {}
    for text in texts:
        name, separator, share = text.partition("=")
        try:
            value = float(share)
        except ValueError:
            value = math.nan
        if not separator or not math.isfinite(value) or value < 0:
            raise _invalid("--popularity", text, "write MODEL=SHARE, such as reviews=0.7")
        shares[name] = value
    if shares and sum(shares.values()) <= 0:
        raise _invalid("--popularity", ",".join(texts), "give at least one model a share above 0")
    return shares


def parse_begin(text: str) -> datetime:
    """Return a time in ISO 8601; in UTC unless it names an offset."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise _invalid("--begin", text, "write a time such as 2026-11-23T00:00") from error


def _invalid(option: str, text: str, remedy: str) -> UsageError:
    return CommandLineError(f"{option} {text}: invalid value", remedy=remedy)


def _decimal(value: float, *, times: int = 1) -> Decimal:
    """Return the shortest decimal number of a float, times a number, without trailing zeros."""
    return (Decimal(repr(value)) * times).normalize()
