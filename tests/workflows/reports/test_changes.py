"""Comparisons with what is deployed run once per state, and belong to the state they are shown for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.projects import edit, write_project
from tests.workflows.reports.sample import sample_report
from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import Project
from tritonstack.operations.verification.status import EnvironmentStatus
from tritonstack.workflows.reports import changes
from tritonstack.workflows.reports.changes import ChangeReader, ReadChanges
from tritonstack.workflows.reports.report import ReportOptions, collect
from tritonstack.workflows.reports.report_data import DeployChanges
from tritonstack.workflows.session import Session

FOUND = DeployChanges(("minilm (cpu): never deployed",), (), (), rejected=False)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return write_project(tmp_path)


@pytest.fixture
def status() -> EnvironmentStatus:
    found = sample_report().environments[0].status
    assert found is not None
    return found


class Comparisons:
    """Replaces the synthesis: counts comparisons, holds them until released, and raises a failure."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.failure: Exception | None = None
        self.released = threading.Event()
        self.released.set()
        monkeypatch.setattr(changes, "diff", self._diff)
        monkeypatch.setattr(changes, "_changes", lambda _: FOUND)

    def _diff(self, *_: Any) -> None:
        self.count += 1
        assert self.released.wait(20)
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> Comparisons:
    return Comparisons(monkeypatch)


def _read_until(read: Callable[[], ReadChanges], wanted: Callable[[ReadChanges], bool]) -> ReadChanges:
    until = time.monotonic() + 20
    while not wanted(found := read()):
        assert time.monotonic() < until, found
        time.sleep(0.01)
    return found


def _is_pending(found: ReadChanges) -> bool:
    return bool(found[1]) and found[1][0].reason == "the stacks are being compared"


def test_the_background_compares_again_only_after_a_change(
    project: Project, status: EnvironmentStatus, comparisons: Comparisons
) -> None:
    session, reader = Session(project), ChangeReader(in_background=True)

    def read() -> ReadChanges:
        return reader.read(session, session.workspace("dev"), status)

    comparisons.released.clear()
    assert _is_pending(read())
    assert _is_pending(read())
    comparisons.released.set()
    assert _read_until(read, lambda one: not _is_pending(one)) == (FOUND, [])
    assert read() == (FOUND, [])
    assert comparisons.count == 1
    edit(project.environment_file("dev"), "111111111111", "222222222222")
    _read_until(read, lambda one: not _is_pending(one))
    assert comparisons.count == 2


@pytest.mark.parametrize("failure", [KeyError("Resources"), TritonstackError("no credentials")])
def test_a_failed_comparison_is_missing_data_and_not_repeated(
    project: Project, status: EnvironmentStatus, comparisons: Comparisons, failure: Exception
) -> None:
    session, reader = Session(project), ChangeReader(in_background=True)
    comparisons.failure = failure

    def read() -> ReadChanges:
        return reader.read(session, session.workspace("dev"), status)

    found, (gap,) = _read_until(read, lambda one: not _is_pending(one))
    assert found is None
    assert gap.reason.endswith(str(failure))
    assert read() == (None, [gap])
    assert comparisons.count == 1
    comparisons.failure = None
    edit(project.environment_file("dev"), "111111111111", "222222222222")
    assert _read_until(read, lambda one: not _is_pending(one)) == (FOUND, [])


@pytest.mark.parametrize("what", ["files", "deployment"])
def test_a_comparison_of_another_state_is_discarded(
    project: Project, status: EnvironmentStatus, comparisons: Comparisons, what: str
) -> None:
    """The files, or what is deployed, change while the stacks are synthesized."""
    session, reader = Session(project), ChangeReader(in_background=True)
    shown = [status]

    def read() -> ReadChanges:
        return reader.read(session, session.workspace("dev"), shown[0])

    comparisons.released.clear()
    assert _is_pending(read())
    if what == "files":
        edit(project.environment_file("dev"), "111111111111", "222222222222")
    else:
        shown[0] = EnvironmentStatus("dev", "1" * 12, "eu-west-1", endpoints=())
        assert _is_pending(read())
    comparisons.released.set()
    _read_until(read, lambda one: not _is_pending(one))
    assert comparisons.count == 2


def test_a_closed_reader_starts_no_comparison(
    project: Project, status: EnvironmentStatus, comparisons: Comparisons
) -> None:
    session, reader = Session(project), ChangeReader(in_background=True)
    reader.close()
    assert _is_pending(reader.read(session, session.workspace("dev"), status))
    assert comparisons.count == 0


@pytest.mark.e2e
def test_a_report_compares_with_the_account(project: Project, account: str) -> None:
    edit(project.environment_file("dev"), "111111111111", account)
    found = collect(Session(project), ReportOptions())
    (dev,) = found.environments
    subjects = [one.subject for one in found.missing]
    assert (dev.changes is not None) != ("changes by a deploy of dev" in subjects)
