"""The status of an environment: what is to be deployed, what runs, and its problems."""

import dataclasses
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.git import Repository
from tritonstack.base.files import short_digest
from tritonstack.cli.commands.operate.status import _following
from tritonstack.cli.rendering.status_text import environment_view
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.revisions import Revision
from tritonstack.operations.verification.status import (
    EndpointStatus,
    EnvironmentStatus,
    Machines,
    ServedDigest,
    undeployed,
)
from tritonstack.operations.verification.traffic import Traffic
from tritonstack.records.events import Event
from tritonstack.workflows.environments.status import Statuses

A, B, COMMIT = "a" * 64, "b" * 64, "c" * 40


def event(kind: Any = "deployed", **facts: Any) -> Event:
    usual = {"environment": "dev", "at": "2026-11-22T08:30:00Z", "by": "Ada", "commit": COMMIT}
    return Event(kind=kind, **{**usual, **facts})


@pytest.mark.parametrize(
    ("deployed", "changed", "models", "words"),
    [
        (event(), [], [ServedDigest("m", A, A)], []),
        (event(), ["environments/dev.yaml"], [], ["environments/dev.yaml differs from commit cccccccc"]),
        (event(), ["a", "b", "c"], [], ["a and 2 more"]),
        (event(), None, [], ["commit cccccccc, which is not"]),
        (event(commit=f"{COMMIT}+"), [], [], ["uncommitted files"]),
        (event(commit=f"{COMMIT}+", uncommitted=("app.py", "new.py")), [], [], ["files: app.py, new.py"]),
        (
            event(commit=f"{COMMIT}+uncommitted", uncommitted=("app.py",)),
            ["app.py", "environments/dev.yaml"],
            [],
            ["files: app.py", "since the deploy: environments/dev.yaml"],
        ),
        (event(commit=None), None, [], ["uncommitted files"]),
        (None, None, [], ["no record"]),
        (
            event(),
            [],
            [ServedDigest("m", A, B), ServedDigest("n", None, B)],
            [f"m is {short_digest(A)}, lock expects {short_digest(B)}", "n is missing"],
        ),
    ],
)
def test_the_deployed_revision_is_compared_with_the_checkout(deployed, changed, models, words):
    reasons = undeployed(deployed, changed, models)
    assert [word in reason for word, reason in zip(words, reasons, strict=True)] == [True] * len(words)


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


def test_files_that_differ_from_a_commit_are_listed(tmp_path):
    repository = Repository(tmp_path)
    for name in ("one", "two", "docs"):
        (tmp_path / name).write_text("first")
    first = repository.commit("First")
    (tmp_path / "two").write_text("second")
    (tmp_path / "docs").write_text("second")
    repository.commit("Second")
    (tmp_path / "one").write_text("third")
    checkout = Checkout(tmp_path)
    assert checkout.changed_since(first, ["one", "two", "three"]) == ["one", "two"]
    assert checkout.changed_since("0" * 40, ["one"]) is None


WELL = EndpointStatus(
    name="search",
    endpoint="t-dev-search",
    status="InService",
    models=(ServedDigest("minilm", A, A),),
    machines=(Machines("main", 1, 1, 2),),
    traffic=Traffic(requests=1204, p99_ms=34.2),
    deployed=event(),
    verdict=event("verified"),
)


NOW = datetime(2026, 11, 22, 8, 35, tzinfo=UTC)


def rendered(environment: EnvironmentStatus, *, columns: int = 400) -> list[str]:
    """Return what a terminal of that width shows."""
    stream = io.StringIO()
    Console(file=stream, width=columns).print(
        *environment_view(environment, now=NOW), sep="\n", soft_wrap=False
    )
    return stream.getvalue().splitlines()


def lines(*endpoints: EndpointStatus, columns: int = 400) -> list[str]:
    return rendered(EnvironmentStatus("dev", "1" * 12, "eu-west-1", None, endpoints), columns=columns)


AMISS = EndpointStatus(
    name="search",
    endpoint="t-dev-search",
    status="InService",
    models=(ServedDigest("minilm", A, B), *(ServedDigest(f"m{number}", A, A) for number in range(5))),
    traffic=Traffic(requests=10, server_errors=3),
    firing_alarms=("t-dev-search-server-errors",),
    drift=("scaling: main: not registered for scaling",),
    to_deploy=("environments/dev.yaml differs from commit cccccccc",),
    deployed=event(),
    verdict=event("refuted", note="x" * 1000),
)


def test_failures_are_listed_below_the_table_and_the_worst_come_first():
    shown = lines(AMISS)
    assert any(line.startswith("✗") and "minilm aaaaaaaaaaaa ≠ lock" in line for line in shown)
    assert any("… 6 of 6" in line for line in shown)
    order = ("t-dev-search-server-errors", "3 requests", "xxx", AMISS.drift[0], AMISS.to_deploy[0])
    assert [part in line for part, line in zip(order, shown[-5:], strict=True)] == [True] * 5
    assert len(" ".join(shown[-3].split())) < 400


@pytest.mark.parametrize(
    ("endpoint", "mark"),
    [
        (WELL, "✓"),
        (AMISS, "✗"),
        (dataclasses.replace(WELL, status="Failed"), "✗"),
        (dataclasses.replace(WELL, status="Updating"), "!"),
        (dataclasses.replace(WELL, to_deploy=("m is missing",)), "!"),
        (dataclasses.replace(WELL, status="not deployed"), "!"),
    ],
)
def test_the_first_column_says_how_an_endpoint_does(endpoint, mark):
    assert lines(endpoint)[2].startswith(f"{mark}  search")


def test_an_unreachable_environment_is_shown_with_the_cause():
    prod = EnvironmentStatus("prod", "2" * 12, "eu-west-1", error="no access\n  help: log in")
    assert rendered(prod)[1:] == ["  no access", "    help: log in"]
