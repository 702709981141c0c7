"""Start and stop local clouds from a script; tests/e2e/local_cloud/test_cloud_process.py starts real ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tritonstack import CloudOptions, Session, down, down_all, up
from tritonstack.base.errors import InvalidFilesError, TritonstackError
from tritonstack.base.paths import Project
from tritonstack.base.results import document
from tritonstack.operate.local import clouds as module
from tritonstack.operate.local.clouds import StoppedCloud, StoppedClouds
from tritonstack.triton import sandbox
from tritonstack_local.access.keys import CloudSecret
from tritonstack_local.cloud_folder import CloudAddress

ADDRESS = CloudAddress("http://localhost:1", 1, 7, "000000000003", "us-east-1", secret=CloudSecret.random())
OPTIONS = CloudOptions(account="000000000003", port=4711)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Record how a cloud is started, instead of starting one."""
    calls: list[tuple[str, Any]] = []

    def detached(settings: Any, *, port: int | None) -> CloudAddress:
        calls.append((settings.account_id, port))
        calls.extend([("expose", True)] if settings.expose else [])
        provisioning = settings.provisioning_minutes
        calls.extend([("provisioning", provisioning)] if provisioning else [])
        return ADDRESS

    def foreground(_: Any, *, port: int | None, on_ready: Callable[[CloudAddress], None]) -> None:
        on_ready(ADDRESS)
        calls.append(("ended", port))

    monkeypatch.setattr(module, "start_detached", detached)
    monkeypatch.setattr(module, "run_foreground", foreground)
    return calls


def test_a_cloud_starts_in_the_background(project: Project, started: list[tuple[str, Any]]) -> None:
    cloud = up(Session(project), OPTIONS)
    assert started == [("000000000003", 4711)]
    assert (cloud.endpoint_url, cloud.account, cloud.pid) == ("http://localhost:1", "000000000003", 7)
    assert cloud.profile.parent == project.cloud_dir("000000000003")


def test_exposure_is_a_setting_of_one_cloud(
    project: Project, started: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "why_no_namespaces", lambda: "forbidden")
    notes: list[str] = []
    session = Session(project)
    monkeypatch.setattr(session.reporter, "note", notes.append)
    up(session, replace(OPTIONS, expose=True))
    assert (started, notes) == ([("000000000003", 4711), ("expose", True)], [])
    assert sandbox.EXPOSE not in os.environ
    up(session, OPTIONS)
    assert started[2:] == [("000000000003", 4711)]
    assert "endpoints cannot start" in notes[0]


@pytest.mark.usefixtures("started")
def test_the_secret_is_in_neither_the_json_nor_the_representation(project: Project) -> None:
    cloud = up(Session(project), OPTIONS)
    secret = cloud.variables["AWS_SECRET_ACCESS_KEY"]
    assert secret not in repr(cloud)
    assert secret not in str(document(cloud))
    assert document(replace(cloud, shows_secret=True))["environment"] == cloud.variables


def test_an_unknown_region_starts_nothing(project: Project, started: list[tuple[str, Any]]) -> None:
    with pytest.raises((InvalidFilesError, TritonstackError), match="mars-1"):
        up(Session(project), CloudOptions(region="mars-1"))
    assert started == []


def test_stopping_when_nothing_runs_is_not_an_error(project: Project) -> None:
    session = Session(project)
    assert down(session) == StoppedCloud(stopped=False, forgotten=False)
    assert down_all(session) == StoppedClouds((), ())


def test_the_state_of_a_stopped_cloud_can_be_removed(project: Project) -> None:
    for account in ("000000000000", "000000000003"):
        state = project.cloud_dir(account) / "state"
        state.mkdir(parents=True)
        (state / "state.db").write_bytes(b"")
    session = Session(project)
    assert down(session, forget=True) == StoppedCloud(stopped=False, forgotten=True)
    assert down_all(session, forget=True) == StoppedClouds((), ("default-000000000003",))
