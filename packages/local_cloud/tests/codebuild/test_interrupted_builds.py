"""Builds that are stopped, time out, or die, and the limit of concurrent builds."""

import os
import pickle
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from packages.local_cloud.tests.codebuild.conftest import REGION, builds_in, kinds, phase, spec, why
from tritonstack_local.codebuild.app import CodeBuildApp
from tritonstack_local.codebuild.machines.processes import ProcessMachine
from tritonstack_local.codebuild.records import CodeBuildTables
from tritonstack_local.scope import Scope

# A process that leaves its group and session, and one that ignores SIGTERM.
STUBBORN = "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' </dev/null >/dev/null 2>&1 &"


def processes_of(build):
    """Return the processes that run in a build's folder or know its id."""
    wanted = build["id"].partition(":")[2].encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if wanted in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return [number for number in found if number != os.getpid()]


def test_stopping_a_build_ends_all_its_processes(account):
    account.project(spec(STUBBORN, "echo up", "sleep 100", post_build={"commands": ["echo never"]}))
    build = account.start()
    account.wait_for_line(build, "up")
    assert processes_of(build)
    stopped = account.codebuild.stop_build(id=build["id"])["build"]
    assert (stopped["buildStatus"], stopped["buildComplete"]) == ("STOPPED", True)
    assert phase(stopped, "BUILD")["phaseStatus"] == "STOPPED"
    assert kinds(stopped)[-2:] == ["BUILD", "COMPLETED"]
    assert not processes_of(build)
    assert account.said(build) == ["up"]


def test_stopping_a_finished_build_changes_nothing(account):
    build = account.built("true")
    assert account.codebuild.stop_build(id=build["id"])["build"]["buildStatus"] == "SUCCEEDED"


def test_a_slow_build_times_out(hurried):
    hurried.project(spec("sleep 100"), timeoutInMinutes=5)
    build = hurried.ended(hurried.start())
    assert build["buildStatus"] == "TIMED_OUT"
    last = kinds(build)[-2]
    assert phase(build, last)["phaseStatus"] == "TIMED_OUT"
    code, message = why(build, last)
    assert (code, "5 minutes" in message) == ("BUILD_TIMED_OUT", True)
    assert not processes_of(build)


def test_a_project_rejects_builds_beyond_its_limit(account):
    """The limit queues nothing: CodeBuild queues builds of projects without a limit only."""
    account.project(spec("echo up", "sleep 100"), concurrentBuildLimit=2)
    first, second = (account.start(idempotencyToken=token) for token in "ab")
    rejected = account.codebuild.exceptions.AccountLimitExceededException
    with pytest.raises(rejected, match="2 active builds"):
        account.start()
    assert account.start(idempotencyToken="a")["id"] == first["id"], "what runs already is no more"
    account.codebuild.stop_build(id=first["id"])
    third = account.start()
    assert int(third["buildNumber"]) == int(second["buildNumber"]) + 1, "what is rejected has no number"
    for build in (second, third):
        account.codebuild.stop_build(id=build["id"])


def test_without_a_limit_builds_run_concurrently(account):
    account.project(spec("echo up", "sleep 100"))
    builds = [account.start() for _ in range(2)]
    for build in builds:
        account.wait_for_line(build, "up")
    for build in builds:
        account.codebuild.stop_build(id=build["id"])


def test_build_whose_processes_end_has_the_status_fault(account):
    account.project(spec("echo up", "sleep 100"))
    build = account.start()
    account.wait_for_line(build, "up")
    agents = [number for number in processes_of(build) if "agent.py" in _command(_parent(number))]
    os.kill(_parent(agents[0]), signal.SIGKILL)
    build = account.ended(build)
    assert build["buildStatus"] == "FAULT"
    code, words = why(build, "BUILD")
    assert code == "INTERNAL_SERVICE_ERROR"
    assert "found dead" in words
    assert not processes_of(build)


def _parent(number):
    return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])


def _command(number):
    return Path(f"/proc/{number}/cmdline").read_text().replace("\0", " ")


def test_interrupted_builds_of_an_earlier_cloud_end_with_fault(account):
    build = account.built("true")
    scope = Scope(account.id, REGION)
    record = account.app.store.builds.get(scope, build["id"])
    left = replace(record, status="IN_PROGRESS", ended=None, phases=record.phases[:6])
    left = replace(left, phases=(*left.phases, replace(record.phases[6], ended=None, status=None)))
    app = CodeBuildApp(replace(account.services, store=CodeBuildTables()))
    app.store.builds.add(scope, pickle.loads(pickle.dumps(left)))  # noqa: S301 - as it is kept
    app.resume()
    found = app.store.builds.get(scope, build["id"]).as_api(scope)
    assert (found["buildStatus"], found["buildComplete"]) == ("FAULT", True)
    assert found["phases"][-2]["phaseStatus"] == "FAULT"
    assert "found dead" in found["phases"][-2]["contexts"][0]["message"]


def test_builds_end_with_their_cloud(running_cloud, tmp_path):
    with builds_in(running_cloud, tmp_path) as account:
        account.project(spec(STUBBORN, "echo up", "sleep 100"))
        build = account.start()
        account.wait_for_line(build, "up")
    assert not processes_of(build)


@pytest.mark.parametrize("forbidden", [None, "operation not permitted"])
def test_all_processes_end_with_and_without_namespaces(account, monkeypatch, forbidden):
    monkeypatch.setattr("tritonstack_local.codebuild.machines.processes.why_no_namespaces", lambda: forbidden)
    monkeypatch.setenv("TRITONSTACK_EXPOSE", "1")
    account.project(spec(STUBBORN, "(" + STUBBORN + ")", "echo up", "sleep 100"))
    build = account.start()
    account.wait_for_line(build, "up")
    assert len(processes_of(build)) >= 4
    account.codebuild.stop_build(id=build["id"])
    assert not processes_of(build)
    if forbidden:
        assert f"({forbidden})" in "\n".join(account.log(build))


def test_agent_ends_its_build_if_the_cloud_is_killed(account, tmp_path):
    """The agent sees only the end of its standard input."""
    from tritonstack_local.codebuild.machines.base import MachineOrder

    order = MachineOrder(
        "b:1", tmp_path, tmp_path, "image", False, {"PATH": os.defpath, "MARK": str(tmp_path)}, ""
    )
    machine = ProcessMachine(order, server_home=tmp_path / "none")
    assert machine.run(["/bin/sh", "-c", STUBBORN], user=None, on_line=print) == 0
    inside = {"id": f"b:{tmp_path}"}
    assert processes_of(inside)
    machine._process.stdin.close()
    deadline = time.monotonic() + 10
    while processes_of(inside) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not processes_of(inside)
    machine.end()
