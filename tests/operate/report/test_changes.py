"""Comparisons with what is deployed run once per state, and belong to the state they are shown for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.operate.report.sample import sample_report
from tests.projects import edit, write_project
from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import Project
from tritonstack.operate.report import report as changes
from tritonstack.operate.report.report import ChangeReader
from tritonstack.operate.report.report_data import DeployChanges, Gaps
from tritonstack.operate.shared.session import Session
from tritonstack.operate.status.status import EnvironmentStatus

FOUND = DeployChanges(("minilm (cpu): never deployed",), (), (), rejected=False)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return write_project(tmp_path)


@pytest.fixture
def status() -> EnvironmentStatus:
    status = sample_report().environments[0].status
    assert status is not None
    return status


class Comparisons:
    """Replaces the synthesis: counts comparisons, and raises a failure."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.failure: Exception | None = None
        monkeypatch.setattr(changes, "diff", self._diff)
        monkeypatch.setattr(changes, "_changes", lambda _: FOUND)

    def _diff(self, *_: Any) -> None:
        self.count += 1
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> Comparisons:
    return Comparisons(monkeypatch)


@pytest.mark.parametrize("failure", [None, TritonstackError("no credentials", remedy=None)])
def test_stacks_are_compared_again_only_after_a_change(
    project: Project, status: EnvironmentStatus, comparisons: Comparisons, failure: Exception | None
) -> None:
    """A failed comparison is missing data, and is not repeated either."""
    session, reader = Session(project), ChangeReader()
    comparisons.failure = failure

    def read(status: EnvironmentStatus = status) -> tuple[DeployChanges | None, Gaps]:
        gaps = Gaps()
        return reader.read(session, session.workspace("dev"), status, gaps), gaps

    change, gaps = read()
    assert change == (None if failure else FOUND)
    assert [gap.reason.endswith(str(failure)) for gap in gaps] == ([True] if failure else [])
    assert read() == (change, gaps)
    assert comparisons.count == 1
    comparisons.failure = None
    edit(project.environment_file("dev"), "111111111111", "222222222222")
    assert read() == (FOUND, [])
    assert comparisons.count == 2
    assert read(EnvironmentStatus("dev", "1" * 12, "eu-west-1", endpoints=())) == (FOUND, [])
    assert comparisons.count == 3
