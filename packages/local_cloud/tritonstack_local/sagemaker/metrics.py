"""Publish endpoint metrics: requests, and the CPU, memory, and disk use of instances."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tritonstack_local.cloudwatch.store import BUCKET_S
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance
from tritonstack_local.sagemaker.records import VariantKey
from tritonstack_local.settings import REAL_MINUTE_S, TimeScale

_PUBLISH_S = 0.5
_SHORTEST_PUBLISH_S = 0.05
_MICROSECONDS = 1_000_000


class Exchange(NamedTuple):
    """One request and its result."""

    status: int
    """The model's status, or the caller's status without a response of the model."""
    model_s: float
    overhead_s: float
    instances: int
    """The variant's number of instances."""
    concurrent: int
    """The number of concurrent requests per instance."""


_CONCURRENT = "ConcurrentRequestsPerModel"
_NO_TRAFFIC = {("InvocationsPerInstance", 0.0, "None"): 1}


class RequestMetrics:
    """Collects exchanges and publishes them once per ten seconds of the cloud, at least twice per second.

    A request counts when it is answered, however late it is published. Without requests, as on AWS,
    InvocationsPerInstance and ConcurrentRequestsPerModel are zero, and the other metrics have no values.
    """

    def __init__(
        self,
        *,
        time_scale: TimeScale,
        concurrency: Callable[[], Iterable[tuple[VariantKey, int]]],
    ) -> None:
        self._concurrency = concurrency
        self._bucket_s = time_scale.lasting(BUCKET_S)
        self._pause_s = min(_PUBLISH_S, max(_SHORTEST_PUBLISH_S, self._bucket_s))
        self._tallies: defaultdict[tuple[VariantKey, int], Counter[tuple[str, float, str]]] = defaultdict(
            Counter
        )
        """How often each value occurred, by the bucket in which the requests were answered."""
        self._busiest: defaultdict[tuple[VariantKey, int], int] = defaultdict(int)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="request metrics", daemon=True)
        self._thread.start()

    def note(self, watched: VariantKey, exchange: Exchange) -> None:
        """Count one request that was answered now."""
        key = watched, int(time.time() / self._bucket_s)
        with self._lock:
            self._tallies[key].update(_values(exchange))
            self._busiest[key] = max(self._busiest[key], exchange.concurrent)

    def close(self) -> None:
        """Publish the last values and stop."""
        self._ended.set()
        self._thread.join()
        self.publish()

    def _run(self) -> None:
        # At whole multiples of the pause, so that a minute is complete shortly after its end.
        while not self._ended.wait(self._pause_s - time.time() % self._pause_s):
            self.publish()

    def publish(self) -> None:
        """Publish collected values."""
        with self._lock:
            tallies, self._tallies = self._tallies, defaultdict(Counter)
            busiest, self._busiest = self._busiest, defaultdict(int)
        for (watched, bucket), tally in tallies.items():
            values = {**tally, (_CONCURRENT, float(busiest[watched, bucket]), "None"): 1}
            _publish(watched, values, at=(bucket + 0.5) * self._bucket_s)
        variants = {watched for watched, _ in tallies}
        for watched, count in self._concurrency():
            values = {(_CONCURRENT, float(count), "None"): 1}
            _publish(watched, values if watched in variants else {**values, **_NO_TRAFFIC}, at=time.time())


def _publish(watched: VariantKey, values: Mapping[tuple[str, float, str], int], *, at: float) -> None:
    for (name, value, unit), count in values.items():
        watched.measure(name, value, unit, at=at, times=count)


def _values(exchange: Exchange) -> Iterator[tuple[str, float, str]]:
    """Yield a name, a value, and a unit for each metric of a request."""
    status = exchange.status
    yield "Invocations", 1.0, "None"
    yield "Invocation4XXErrors", float(400 <= status < 500), "None"
    yield "Invocation5XXErrors", float(status >= 500), "None"
    yield "InvocationModelErrors", float(not 200 <= status < 300), "None"
    yield "InvocationsPerInstance", 1 / max(1, exchange.instances), "None"
    yield "ModelLatency", _rounded(exchange.model_s), "Microseconds"
    yield "OverheadLatency", _rounded(exchange.overhead_s), "Microseconds"


class Stopwatch:
    """Separates a request's model latency from its overhead."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.model_s = 0.0
        """The time that the model took."""

    def overhead_s(self) -> float:
        """Return the overhead so far."""
        return time.monotonic() - self.began - self.model_s


def _rounded(seconds: float) -> float:
    return float("%.3g" % (seconds * _MICROSECONDS))


_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


class Usage(NamedTuple):
    """CPU time since the start of each process, and memory."""

    cpu_s: float = 0.0
    memory_bytes: int = 0


class ProcessTable:
    """A snapshot of all processes."""

    def __init__(self) -> None:
        self._usage: dict[int, Usage] = {}
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        for entry in _PROC.iterdir():
            # The name in parentheses may contain anything; numbers follow (proc(5)).
            with contextlib.suppress(OSError):  # it has just ended
                if entry.name.isdecimal():
                    self._add(int(entry.name), (entry / "stat").read_text().rpartition(")")[2].split())

    def _add(self, pid: int, numbers: list[str]) -> None:
        cpu_s = (int(numbers[11]) + int(numbers[12])) / _TICKS_PER_S
        self._usage[pid] = Usage(cpu_s, int(numbers[21]) * _PAGE_BYTES)
        self._children[int(numbers[1])].append(pid)

    def used_below(self, pid: int) -> Usage:
        """Return the sum of a process and its descendants; 0 if it has ended."""
        parts = [self._usage.get(pid, Usage()), *map(self.used_below, self._children.get(pid, ()))]
        return Usage(sum(part.cpu_s for part in parts), sum(part.memory_bytes for part in parts))


INSTANCE_NAMESPACE = "/aws/sagemaker/Endpoints"
# Lower bound at any time scale: a snapshot takes some milliseconds.
_SHORTEST_MINUTE_S = 0.5
_PERCENT = 100.0


class MachineMetrics:
    """Measures every instance and counts its loaded models periodically."""

    def __init__(self, *, time_scale: TimeScale, instances: Callable[[], list[EndpointInstance]]) -> None:
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
            plan, models = instance.plan, instance.container.models
            with contextlib.suppress(OSError):  # its endpoint was just deleted
                for name, value in self._used(instance, table, before):
                    plan.key.measure(name, value, "Percent", namespace=INSTANCE_NAMESPACE)
                if models is not None:
                    count = models.loaded_count()
                    plan.key.measure("LoadedModelCount", count, namespace=INSTANCE_NAMESPACE)

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
        disk = shutil.disk_usage(instance.folder)
        yield "DiskUtilization", _PERCENT * disk.used / disk.total
