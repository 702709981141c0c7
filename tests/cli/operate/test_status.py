"""The table of `status`, and the next command that it names."""

import dataclasses
import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from tests.operate.status.test_endpoint_status import COMMIT, A, B, event
from tritonstack.cli.commands.operate.status import _following, environment_view
from tritonstack.operate.shared.revisions import Revision
from tritonstack.operate.status.status import EndpointStatus, EnvironmentStatus, ServedDigest, Statuses
from tritonstack.operate.status.traffic import Traffic

WELL = EndpointStatus("search", "t-dev-search", status="InService", deployed=event())
AMISS = dataclasses.replace(
    WELL,
    models=(ServedDigest("minilm", A, B), *(ServedDigest(f"m{number}", A, A) for number in range(5))),
    traffic=Traffic(requests=10, server_errors=3),
    firing_alarms=("t-dev-search-server-errors",),
    drift=("scaling: main: not registered for scaling",),
    to_deploy=("environments/dev.yaml differs from commit cccccccc",),
    verdict=event("refuted", note="x" * 1000),
)
NOW = datetime(2026, 11, 22, 8, 35, tzinfo=UTC)


def rendered(environment: EnvironmentStatus) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=400).print(*environment_view(environment, now=NOW), sep="\n")
    return stream.getvalue().splitlines()


def test_failures_are_listed_below_the_table_and_the_worst_come_first():
    others = (dataclasses.replace(WELL, status=status) for status in ("InService", "Failed", "Updating"))
    states = (AMISS, *others, dataclasses.replace(WELL, to_deploy=("m is missing",)))
    shown = rendered(EnvironmentStatus("dev", "1" * 12, "eu-west-1", None, states))
    assert [line[0] for line in shown if line[1:9] == "  search"] == ["✗", "✓", "✗", "!", "!"]
    assert "minilm aaaaaaaaaaaa ≠ lock" in shown[2]
    assert any("… 6 of 6" in line for line in shown)
    order = ("t-dev-search-server-errors", "3 requests", "xxx", AMISS.drift[0], AMISS.to_deploy[0])
    places = [next(number for number, line in enumerate(shown) if part in line) for part in order]
    assert places == sorted(places)
    unreachable = EnvironmentStatus("prod", "2" * 12, "eu-west-1", error="no access\n  help: log in")
    assert rendered(unreachable)[1:] == ["  no access", "    help: log in"]


@pytest.mark.parametrize(
    ("endpoint", "revision", "commands"),
    [
        ({}, Revision(COMMIT), ["tritonstack deploy dev"]),
        ({}, Revision(COMMIT, ("app.py",)), ["git add app.py", "git commit", "tritonstack deploy dev"]),
        ({}, Revision(None), ["git init", "git add --all", "git commit", "tritonstack deploy dev"]),
        ({"to_deploy": ("m is missing", "deployed from …")}, Revision(COMMIT), ["tritonstack diff dev"]),
        ({"deployed": event()}, Revision(COMMIT), ["tritonstack diff dev"]),
        ({"to_deploy": (), "status": "Updating"}, Revision(COMMIT), ["tritonstack diff dev"]),
        ({"status": "Failed"}, Revision(COMMIT), ["tritonstack verify dev"]),
    ],
)
def test_the_next_command_helps_after_a_deploy_from_uncommitted_files(endpoint, revision, commands):
    deployed = event(commit=f"{COMMIT}+uncommitted")
    waiting = dataclasses.replace(WELL, deployed=deployed, to_deploy=("deployed from …",))
    dev = EnvironmentStatus("dev", endpoints=(dataclasses.replace(waiting, **endpoint),), revision=revision)
    assert _following(Statuses((dev,)), "", Path()) == commands
