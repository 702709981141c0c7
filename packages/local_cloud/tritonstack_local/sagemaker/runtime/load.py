"""Publish each instance's CPU and memory use once per minute of the cloud's time scale."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tritonstack_local.cloudwatch.metrics import Datum, Metrics
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance
from tritonstack_local.sagemaker.runtime.measurements import MeasuredVariant
from tritonstack_local.time_scale import REAL_MINUTE_S, TimeScale

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


@dataclass(frozen=True)
class Usage:
    """CPU time since the start of each process, and memory."""

    cpu_s: float = 0.0
    memory_bytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.cpu_s + other.cpu_s, self.memory_bytes + other.memory_bytes)


class ProcessTable:
    """A snapshot of all processes."""

    def __init__(self) -> None:
        self._usage: dict[int, Usage] = {}
        self._children: dict[int, list[int]] = {}
        for pid, parent, usage in _processes():
            self._usage[pid] = usage
            self._children.setdefault(parent, []).append(pid)

    def used_below(self, pid: int) -> Usage:
        """Return the sum of a process and its descendants; 0 if it has ended."""
        total = self._usage.get(pid, Usage())
        for child in self._children.get(pid, []):
            total += self.used_below(child)
        return total


def _processes() -> Iterator[tuple[int, int, Usage]]:
    for entry in os.scandir(_PROC):
        if entry.name.isdecimal():
            try:
                # The name in parentheses may contain anything; numbers follow (proc(5)).
                numbers = (_PROC / entry.name / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            cpu_s = (int(numbers[11]) + int(numbers[12])) / _TICKS_PER_S
            yield int(entry.name), int(numbers[1]), Usage(cpu_s, int(numbers[21]) * _PAGE_BYTES)


NAMESPACE = "/aws/sagemaker/Endpoints"
# Lower bound at any time scale: a snapshot takes some milliseconds.
_SHORTEST_MINUTE_S = 0.5
_PERCENT = 100.0


class MachineMetrics:
    """Measures every instance periodically."""

    def __init__(
        self, *, metrics: Metrics, time_scale: TimeScale, instances: Callable[[], list[EndpointInstance]]
    ) -> None:
        self._metrics = metrics
        self._minute_s = max(_SHORTEST_MINUTE_S, time_scale.lasting(REAL_MINUTE_S))
        self._instances = instances
        self._before: dict[str, tuple[float, float]] = {}
        self._memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machine metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._minute_s):
            instances = [instance for instance in self._instances() if instance.available]
            if instances:
                self._measure(instances)

    def _measure(self, instances: list[EndpointInstance]) -> None:
        table = ProcessTable()
        before, self._before = self._before, {}
        for instance in instances:
            plan = instance.plan
            dimensions = MeasuredVariant(plan.scope, plan.endpoint, plan.variant).dimensions
            with contextlib.suppress(OSError):  # its endpoint was just deleted
                used = list(self._used(instance, table, before))
                data = [Datum(NAMESPACE, name, dimensions, value, "Percent") for name, value in used]
                self._metrics.put(plan.scope, data)

    def _used(
        self, instance: EndpointInstance, table: ProcessTable, before: dict[str, tuple[float, float]]
    ) -> Iterator[tuple[str, float]]:
        usage, clock = table.used_below(instance.container.server.pid), time.monotonic()
        self._before[instance.id] = (clock, usage.cpu_s)
        if instance.id in before:
            then, cpu_s = before[instance.id]
            # A restarted container starts at zero.
            yield "CPUUtilization", _PERCENT * max(0.0, usage.cpu_s - cpu_s) / (clock - then)
        yield "MemoryUtilization", _PERCENT * usage.memory_bytes / self._memory_bytes
        size = _bytes_below(instance.folder)
        yield "DiskUtilization", _PERCENT * size / shutil.disk_usage(instance.folder).total


def _bytes_below(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:  # it was just removed
                continue
    return total
