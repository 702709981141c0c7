"""A watched report is written again and again, whatever happens to the files that it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.git import Repository
from tests.operate.report.sample import sample_report
from tests.projects import edit, write_project
from tritonstack.base.paths import Project
from tritonstack.operate.report import report
from tritonstack.operate.report.live_state import StageLog
from tritonstack.operate.report.report import ReportOptions, WrittenReport, collect, watch_report
from tritonstack.operate.report.report_data import ReportData
from tritonstack.operate.shared.session import Session


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = write_project(tmp_path)
    Repository(tmp_path).commit("start")
    return project


def _watch(
    project: Project, monkeypatch: pytest.MonkeyPatch, *between: Callable[[], None]
) -> tuple[list[WrittenReport], list[str]]:
    """Watch until Ctrl-C, with a step between two reads; return what was announced, and each page."""
    file, steps = project.root / "report.html", [*between]
    announced, pages = list[WrittenReport](), list[str]()

    def sleep(_: float) -> None:
        pages.append(file.read_text())
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(report.time, "sleep", sleep)
    watch_report(Session(project), file, ReportOptions(offline=True), on_written=announced.append)
    return announced, pages


def test_changes_and_broken_files_are_shown(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project.environment_file("dev")
    announced, pages = _watch(
        project,
        monkeypatch,
        lambda: edit(file, "111111111111", "222222222222"),
        lambda: edit(file, "eu-west-1", "nowhere"),
    )
    assert [written.file.name for written in announced] == ["report.html"]
    assert all('http-equiv="refresh" content="10"' in page for page in pages)
    assert ["222222222222" in page for page in pages] == [False, True, False]
    assert ["invalid files" in page for page in pages] == [False, False, True]
    assert 'http-equiv="refresh"' not in (project.root / "report.html").read_text()  # it has ended


@pytest.mark.parametrize("failure", [FileNotFoundError("dev.lock.yaml"), KeyError("Stacks")])
def test_an_unexpected_error_keeps_the_data_and_the_next_read_recovers(
    project: Project, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    """A checkout removes files while they are read."""
    failing = list[Exception]()

    def collecting(*arguments: object) -> ReportData:
        if failing:
            raise failing.pop()
        return collect(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(report, "collect", collecting)
    _, pages = _watch(project, monkeypatch, lambda: failing.append(failure), lambda: None)
    assert ['class="lost"' in page for page in pages] == [False, True, False]
    assert f"{type(failure).__name__}: " in pages[1]
    assert "111111111111" in pages[1]


def test_stages_of_a_rollout_are_remembered() -> None:
    """AWS reports only the present one."""
    log, sample = StageLog(), sample_report()
    prod = sample.environments[1]
    running = dataclasses.replace(prod.rollouts[0], outcome="in progress")
    stages_by_read: list[tuple[tuple[float, str], ...]] = []
    for at, text in ((5.0, "Creating"), (15.0, "Creating"), (25.0, "Baking: 50 %"), (30.0, "")):
        stages = ((at, text),) if text else ()
        rollouts = (dataclasses.replace(running, stages=stages),)
        read = dataclasses.replace(prod, rollouts=rollouts)
        (environment,) = log.completed(dataclasses.replace(sample, environments=(read,))).environments
        stages_by_read.append(environment.rollouts[0].stages)
    assert stages_by_read[1] == ((5.0, "Creating"),)
    assert stages_by_read[2] == ((5.0, "Creating"), (25.0, "Baking: 50 %"))
    assert stages_by_read[3] == stages_by_read[2]
