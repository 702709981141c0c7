"""The folders of searches: recorded runs, one search at a time, and what interrupted searches leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tritonstack.base.paths import Project
from tritonstack_sizing.tuning.search import TunedRun
from tritonstack_sizing.tuning.search_folders import (
    KEPT_S,
    RunRecord,
    SearchRunningError,
    only_search,
    remove_stale_searches,
    searches_dir,
)
from tritonstack_sizing.tuning.spaces import Dimension, Measured, SearchSpace

SPACE = SearchSpace((Dimension("a: instances", (1, 2, 4), 0), Dimension("OMP_NUM_THREADS", (None, 1), 0)))
RUNS = [TunedRun((0, 0), Measured(10.0, 1.0, 2.0)), TunedRun((2, 1), Measured(20.0, 1.0, 3.0, 0.25))]
SEARCHING = """\
import sys, time
from pathlib import Path
from tritonstack.base.paths import Project
from tritonstack_sizing.tuning.search_folders import only_search

with only_search(Project(Path(sys.argv[1]))):
    print("searching", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    """A file with two runs."""
    record = RunRecord(tmp_path / "search" / "runs.jsonl", SPACE)
    for run in RUNS:
        record.append(run)
    return record


def read(record: RunRecord) -> tuple[list[TunedRun], list[str]]:
    notes: list[str] = []
    return record.read(notes.append), notes


def test_runs_are_read_as_they_were_written_without_a_line_that_was_cut_off(record: RunRecord) -> None:
    with record.file.open("a") as stream:
        stream.write('{"choice": {"a: inst')
    assert read(record) == (RUNS, [])
    record.append(RUNS[0])
    assert read(record) == ([*RUNS, RUNS[0]], [])


FIGURES = '{"answered_per_s": 1, "p50_ms": 1, "p99_ms": 1, "failed_share": 0, "violation": ""}'
CHOICE = '{"a: instances": 1, "OMP_NUM_THREADS": null}'


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "",
        '{"choice": {"a: inst',
        f'{{"choice": {{}}, "found": {FIGURES}}}',
        f'{{"choice": {CHOICE.replace("1", "8")}, "found": {FIGURES}}}',
        f'{{"choice": {CHOICE}, "found": {{}}}}',
        f'{{"choice": {CHOICE}, "found": {FIGURES.replace("_ms", "_s")}}}',
    ],
)
def test_a_line_that_is_no_run_is_left_out(record: RunRecord, line: str) -> None:
    first, *others = record.file.read_text().splitlines()
    record.file.write_text("\n".join([first, line, *others, ""]))
    assert read(record) == (RUNS, [])
    assert record.file.read_text().splitlines() == [first, *others]


@pytest.mark.parametrize(
    "dimensions",
    [
        SPACE.dimensions[:1],
        SPACE.dimensions[::-1],
        (Dimension("a: instances", (1, 2, 8), 0), SPACE.dimensions[1]),
        (Dimension("a: instances", (1, 2, 4), 1), SPACE.dimensions[1]),
        (*SPACE.dimensions, Dimension("a: precision", ("fp32", "int8"), 0)),
    ],
)
def test_runs_of_another_space_are_not_used(record: RunRecord, dimensions: tuple[Dimension, ...]) -> None:
    other = RunRecord(record.file, SearchSpace(dimensions))
    runs, notes = read(other)
    assert (runs, len(notes)) == ([], 1)
    assert "starting again" in notes[0]
    assert read(other) == ([], [])


def test_one_search_at_a_time_until_its_process_ends(tmp_path: Path) -> None:
    project = Project(tmp_path)
    command = [sys.executable, "-c", SEARCHING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            with pytest.raises(SearchRunningError) as caught, only_search(project):
                pass
            assert (caught.value.code, bool(caught.value.remedy)) == ("TS916", True)
        finally:
            process.send_signal(signal.SIGKILL)
    with only_search(project):
        assert searches_dir(project).is_dir()


def test_what_is_not_of_a_search_stays(tmp_path: Path) -> None:
    project = Project(tmp_path)
    folder, other = searches_dir(project), tmp_path / "other"
    folder.mkdir(parents=True)
    other.mkdir()
    (folder / ".DS_Store").write_text("")
    (folder / "link").symlink_to(other)
    (folder / "broken").symlink_to("missing")
    before = time.time() - KEPT_S - 60
    for path in (folder / ".DS_Store", other):
        os.utime(path, (before, before))
    with only_search(project):
        remove_stale_searches(project)
    assert {path.name for path in folder.iterdir()} == {".DS_Store", "link", "broken"}
    assert other.is_dir()


def test_old_folders_are_removed_and_recent_ones_resume(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for name in ("old", "recent", "measured"):
        (searches_dir(project) / name).mkdir(parents=True)
    (searches_dir(project) / "measured" / "runs.jsonl").write_text("")
    before = time.time() - KEPT_S - 60
    for name in ("old", "measured"):
        os.utime(searches_dir(project) / name, (before, before))
    with only_search(project):
        remove_stale_searches(project)
    assert {folder.name for folder in searches_dir(project).iterdir()} == {"recent", "measured"}
