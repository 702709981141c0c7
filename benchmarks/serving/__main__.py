"""Compare endpoints with FastAPI servers, under a closed loop of many users.

    python -m benchmarks.serving [--work minilm|roberta|resnet|xgboost|all] [--users 200] [--rounds 5]
                                 [--seconds 6] [--json FILE]

Each work builds its models and serves them with a real Triton at the container port, and through
InvokeEndpoint of the local cloud. The peers are benchmarks/peers/server.py with the same files. All
contestants of a work run at the same time, get the same requests, and are loaded in turns. The load comes
from wrk, which takes little CPU time.

Every run compares answers with the framework's while the server is under load. Errors and wrong answers are
reported, and the exit code is 1. Missed goals leave it at 0.

Before the first run: apt-get install wrk curl, and
pip install --require-hashes --no-deps --target .tritonstack/peers -r benchmarks/peers/requirements.txt
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.serving.goals import Row, outcomes
from benchmarks.serving.load import Load, Round, Server
from benchmarks.serving.peers import started
from benchmarks.serving.products import invoke_endpoint, triton_port
from benchmarks.serving.report import failures, machine, print_outcomes, print_rows, write_json
from benchmarks.serving.works import WORKS, Place, Work
from tritonstack.base.paths import Project, find_project

SINGLE_S = 3
"""Length of a run with one user."""


@dataclass(frozen=True)
class Runs:
    """How a work is measured."""

    users: int
    seconds: int
    rounds: int


@dataclass(frozen=True)
class Contestant:
    """A running server, and how it is loaded."""

    server: Server
    load: Load
    form: str
    users: int
    seconds: int


def main() -> int:
    """Measure and print the tables of each work."""
    # End the servers too: Python's default for this signal would leave them running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse_options()
    project = find_project(Path(__file__).parent)
    require_tools(project)
    report: dict[str, Any] = {"machine": machine(), "options": options_of(options), "works": {}}
    failed: list[str] = []
    for name in WORKS if options.work == "all" else [options.work]:
        began = time.monotonic()
        try:
            figures = measure(project, name, options)
        except Exception:
            # The other works still run; an unattended run keeps what it has measured.
            traceback.print_exc()
            figures = {"failure": traceback.format_exc()}
        figures["seconds"] = round(time.monotonic() - began)
        report["works"][name] = figures
        failed += failures(name, figures)
        if options.json:
            write_json(options.json, report)
        print(f"{name}: {figures['seconds']} s", flush=True)
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--work", choices=(*WORKS, "all"), default="all")
    parser.add_argument("--users", type=int, default=200, help="connections, each with one request at a time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=6, help="length of each run")
    parser.add_argument("--json", type=Path, help="file for all figures, and facts of the machine")
    return parser.parse_args()


def options_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options as plain data."""
    return {"users": options.users, "rounds": options.rounds, "seconds": options.seconds}


def require_tools(project: Project) -> None:
    """Exit with the missing command of the module's help."""
    for tool in ("wrk", "curl", "nsenter"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is missing; run: apt-get install wrk curl util-linux")
    if not (project.state_dir / "peers" / "fastapi").is_dir():
        sys.exit(
            "the peers' packages are missing; run: pip install --require-hashes --no-deps "
            "--target .tritonstack/peers -r benchmarks/peers/requirements.txt"
        )


def measure(project: Project, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one work; return its figures."""
    with tempfile.TemporaryDirectory(prefix="serving-") as temporary:
        place = Place(project, Path(temporary))
        work = WORKS[name](place)
        runs = Runs(
            users=min(options.users, work.most_users or options.users),
            seconds=max(options.seconds, work.shortest_s),
            rounds=options.rounds,
        )
        builds = [product.made.describe() for product in work.products.values()]
        rows = list(measured(place, work, runs))
    print_rows(f"{name}: medians of {runs.rounds} rounds of {runs.seconds} s", rows)
    results = list(outcomes(work.goals, rows, runs.users))
    print_outcomes(results)
    return {
        "builds": builds,
        "runs": asdict(runs),
        "forms": {name: asdict(peer.form) for name, (peer, _) in work.peers.items()},
        "rows": [row.to_json() for row in rows],
        "goals": [result.to_json() for result in results],
    }


def measured(place: Place, work: Work, runs: Runs) -> Iterator[Row]:
    """Start everything and load the contestants in turns; yield a row for each."""
    with ExitStack() as running:
        contestants = list(start_all(place, work, running, runs))
        rounds: list[list[Round]] = [[] for _ in contestants]
        for _ in range(runs.rounds):
            for contestant, results in zip(contestants, rounds, strict=True):
                results.append(
                    contestant.load.run(
                        contestant.server, connections=contestant.users, seconds=contestant.seconds
                    )
                )
    for contestant, results in zip(contestants, rounds, strict=True):
        yield Row(
            contestant.server.name, contestant.server.backend, contestant.form, contestant.users, results
        )


def start_all(place: Place, work: Work, running: ExitStack, runs: Runs) -> Iterator[Contestant]:
    """Start every peer and every build; they end with `running`."""
    project = place.project

    def contestants(server: Server, load: Load, form: str = "") -> Iterator[Contestant]:
        yield Contestant(server, load, form, runs.users, runs.seconds)
        if server.name in work.single and runs.users != 1:
            yield Contestant(server, load, form, 1, SINGLE_S)

    for peer, load in work.peers.values():
        yield from contestants(running.enter_context(started(project, peer)), load, str(peer.form))
    for product in work.products.values():
        server = running.enter_context(triton_port(project, place.folder, product.made))
        yield from contestants(server, product.load)
        if product.invoke_endpoint:
            server = running.enter_context(invoke_endpoint(project, place.folder, product.made))
            yield from contestants(server, product.load)


if __name__ == "__main__":
    sys.exit(main())
