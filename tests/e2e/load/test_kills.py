"""Soak test: Tritons are killed repeatedly under load, and the endpoint keeps serving.

TRITONSTACK_SOAK_S makes it longer.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.load.crowd import Outcome, asking
from tests.e2e.load.hosted import ENDPOINT, HostedCloud, ensemble, hosted_cloud

pytestmark = pytest.mark.soak

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where Triton's Python backend keeps its regions
SOAK_S = float(os.environ.get("TRITONSTACK_SOAK_S", "40"))
BETWEEN_KILLS_S = 4.0
CLIENTS = 16


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[HostedCloud]:
    before = set(os.listdir(SHARED_MEMORY))
    with hosted_cloud(tmp_path / "cloud") as cloud:
        cloud.config("killed", ensemble(adds=2, delay_s=0.05), instances=2)
        cloud.sagemaker.create_endpoint(EndpointName=ENDPOINT, EndpointConfigName="killed")
        assert cloud.settled()["EndpointStatus"] == "InService"
        everything = descendants(cloud.address.pid)
        yield cloud
        everything |= descendants(cloud.address.pid)
    assert not [pid for pid in everything if is_alive(pid)]
    left = {name for name in set(os.listdir(SHARED_MEMORY)) - before if name.startswith("triton")}
    assert left == set()


def test_only_requests_in_flight_at_a_kill_fail(cloud: HostedCloud) -> None:
    kills: list[tuple[float, float]] = []
    with asking(cloud.ask, clients=CLIENTS, pause_s=0.05) as crowd:
        ends = time.monotonic() + SOAK_S
        while time.monotonic() < ends:
            time.sleep(BETWEEN_KILLS_S)
            # In turn one of the two servers, and both at once: then requests wait for the restart.
            kills.append(kill(tritons(cloud.address.pid)[: 1 + len(kills) % 2]))
    described = cloud.settled()
    print(
        f"{len(kills)} kills in {SOAK_S:g} s: {len(crowd.outcomes)} requests of {CLIENTS} clients, "
        f"{len(crowd.failed)} in flight at a kill failed, slowest {crowd.slowest_s():.1f} s"
    )
    assert described["EndpointStatus"] == "InService"
    assert {outcome.error for outcome in crowd.failed} <= {"InternalFailure"}
    assert [one for one in crowd.failed if not any(was_in_flight(one, kill) for kill in kills)] == []
    assert {outcome.answer for outcome in crowd.outcomes if outcome.error is None} == {42.0}
    assert cloud.ask() == 42
    assert crowd.failed, "no kill has met a request: the test shows nothing"


def was_in_flight(outcome: Outcome, kill: tuple[float, float]) -> bool:
    """A kill lasts until the last thread of the process has ended: until then it accepts connections."""
    began, ended = kill
    return outcome.began <= ended and began <= outcome.ended


def kill(pids: list[int]) -> tuple[float, float]:
    """Kill a process; return when the kill began and ended."""
    began = time.monotonic()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    while any(stat_of(pid) for pid in pids):
        time.sleep(0.005)
    return began, time.monotonic()


def tritons(cloud: int) -> list[int]:
    """Return the servers that this cloud runs."""
    found = [pid for pid in descendants(cloud) if name_of(pid) == "tritonserver"]
    return sorted(found)


def descendants(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and (fields := stat_of(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, ahead = set[int](), [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found.update(below)
        ahead.extend(below)
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    fields = stat_of(pid)
    return bool(fields) and fields[0] != "Z"


def stat_of(pid: int) -> list[str]:
    """Return the fields after the name in /proc/<pid>/stat; nothing if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
