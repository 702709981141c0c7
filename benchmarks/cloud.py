"""Measure the local cloud: start-up and idle cost.

    python -m benchmarks.cloud [--rounds 5]

The baseline is moto's own server, started alternately and measured in the same way.
"""

from __future__ import annotations

import argparse
import http.client
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measuring import stopwatch
from tritonstack.base.paths import find_project
from tritonstack.triton.processor_time import processor_seconds, tree
from tritonstack_local import process
from tritonstack_local.settings import CloudSettings

LIMIT_S = 3.0
IDLE_S = 5.0
ACCOUNT, REGION = "000000000000", "us-east-1"
Row = tuple[str, str]


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of starts, of which the median is reported"
    )
    options = parser.parse_args()
    table = Table("what", "measured", title="the local cloud on this machine")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for row in starting(folder, options.rounds):
            table.add_row(*row)
    Console().print(table)
    Console().print(f"limit: ready within {LIMIT_S:g} s, without endpoints")


@dataclass(frozen=True)
class Started:
    """A running server, and the time until its first answer."""

    pid: int
    seconds: float


def starting(folder: Path, rounds: int) -> Iterator[Row]:
    """Start the cloud and its baseline alternately, after a warm-up of each."""
    kinds = {"the cloud": started_cloud, "baseline, moto_server": started_moto}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    idle: list[Row] = []
    for number in range(rounds):
        for kind, start in kinds.items():
            with start(folder / f"{number}-{kind}") as started:
                times[kind].append(started.seconds)
                if number == rounds - 1:
                    idle.append((f"{kind}: memory, idle", memory(started.pid)))
                    idle.append((f"{kind}: CPU, idle", idle_processor(started.pid)))
    for kind, elapsed in times.items():
        seconds = f"{statistics.median(elapsed):.2f} s, best {min(elapsed):.2f}, worst {max(elapsed):.2f}"
        yield f"{kind}: start to ready", seconds
    yield from sorted(idle)


@contextmanager
def started_cloud(folder: Path) -> Iterator[Started]:
    """Start a cloud without endpoints, as `tritonstack up --detach` does."""
    settings = CloudSettings(
        state_dir=folder,
        server_home=find_project(Path(__file__).parent).server_dir,
        account_id=ACCOUNT,
        region=REGION,
    )
    with stopwatch() as elapsed:
        address = process.start_detached(settings)
    try:
        yield Started(address.pid, elapsed[0])
    finally:
        process.stop(state_dir=folder)


@contextmanager
def started_moto(folder: Path) -> Iterator[Started]:
    """Start moto's own server, with all of its services."""
    del folder
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    with stopwatch() as elapsed:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not answers(port):
            time.sleep(0.02)
    try:
        yield Started(child.pid, elapsed[0])
    finally:
        child.terminate()
        child.wait()


def answers(port: int) -> bool:
    """Return whether a server answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def memory(pid: int) -> str:
    """Return the resident memory of a process and its descendants; shared pages count once (PSS)."""
    rollups = (Path(f"/proc/{process}/smaps_rollup").read_text() for process in tree(pid))
    kib = sum(
        int(line.split()[1]) for text in rollups for line in text.splitlines() if line.startswith("Pss:")
    )
    return f"{kib / 1024:.0f} MiB"


def idle_processor(pid: int) -> str:
    """Return the share of one core that an idle process tree uses."""
    before = processor_seconds(pid)
    time.sleep(IDLE_S)
    return f"{(processor_seconds(pid) - before) / IDLE_S * 100:.1f} % of a core"


if __name__ == "__main__":
    main()
