"""The folders of searches: one search at a time, what it has measured, and what other searches left."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tritonstack.base.files import only_writer, parse_json, write_text_atomically
from tritonstack.base.paths import Project
from tritonstack_sizing.errors import SearchError
from tritonstack_sizing.tuning.search import TunedRun
from tritonstack_sizing.tuning.spaces import Measured, SearchSpace

KEPT_S = 7 * 86_400
"""How long an interrupted search can resume."""


class SearchRunningError(SearchError):
    """Another search runs in the project."""

    code = SearchError.code


def searches_dir(project: Project) -> Path:
    """Return the parent of all folders of searches."""
    return project.state_dir / "tuning"


@contextmanager
def only_search(project: Project) -> Iterator[None]:
    """Let no other search of the project run meanwhile: both would measure each other's load."""
    with ExitStack() as stack:
        try:
            stack.enter_context(only_writer(searches_dir(project), wait=False))
        except BlockingIOError:
            raise SearchRunningError(
                "another `tritonstack tune` is running in this project",
                remedy="wait until it ends; two searches would disturb each other's measurements",
            ) from None
        yield


def remove_stale_searches(project: Project) -> None:
    """Remove the folders of searches that were interrupted and have not resumed; no search may run."""
    oldest = time.time() - KEPT_S
    for folder in searches_dir(project).iterdir():
        if folder.is_symlink() or not folder.is_dir():
            continue  # not of a search
        changed = max(file.stat().st_mtime for file in (folder, *folder.glob("*.jsonl")))
        if changed < oldest:
            shutil.rmtree(folder)


@dataclass(frozen=True)
class RunRecord:
    """The file with the runs of a search; its first line has the search space and the figures."""

    file: Path
    space: SearchSpace

    def read(self, note: Callable[[str], None]) -> list[TunedRun]:
        """Return the recorded runs, without a line that was cut off; none if the space is another one."""
        if not self.file.exists():
            return []
        first, *lines = self.file.read_text(encoding="utf-8").splitlines() or [""]
        if f"{first}\n" != self._head():
            note("the recorded runs have other settings or values; starting again")
            self.file.unlink()
            return []
        runs = []
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):  # the search was killed while it wrote
                runs.append(self._run(line))
        write_text_atomically(self.file, self._head() + "".join(map(self._line, runs)))
        return runs

    def _run(self, line: str) -> TunedRun:
        content = parse_json(line)
        choice = content["choice"]
        places = (dimension.values.index(choice[dimension.name]) for dimension in self.space.dimensions)
        return TunedRun(tuple(places), Measured(**content["found"]))

    def append(self, run: TunedRun) -> None:
        """Add a run. One without answers is not kept: the search measures it again when it resumes."""
        if not run.found.usable:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        head = "" if self.file.exists() else self._head()
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(head + self._line(run))

    def _head(self) -> str:
        space = [[dimension.name, dimension.values, dimension.start] for dimension in self.space.dimensions]
        return f"{json.dumps({'space': space, 'figures': [field.name for field in fields(Measured)]})}\n"

    def _line(self, run: TunedRun) -> str:
        content = {"choice": self.space.values(run.choice), "found": asdict(run.found)}
        return f"{json.dumps(content)}\n"
