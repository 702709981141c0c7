"""All builds on their way, each in a thread of its own, and the queue that a project's limit makes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from local_cloud.codebuild.build_run import FOUND_DEAD, Bench, BuildRun
from local_cloud.codebuild.faults import BuildEndedError
from local_cloud.codebuild.records import BuildRecord, Status
from local_cloud.places import Place

_STOP_PATIENCE_S = 30.0
_CLOSED: tuple[Status, str, str] = (
    "FAULT",
    "INTERNAL_SERVICE_ERROR",
    f"{FOUND_DEAD} The embedded cloud ended.",
)
Key = tuple[Place, str]


class Workshop:
    """Runs builds. A project that allows so many at once lets others wait, first come, first served."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._runs: dict[Key, tuple[BuildRun, threading.Thread]] = {}
        self._waiting: dict[Key, list[BuildRun]] = {}
        self._active: dict[Key, int] = {}
        self._changed = threading.Condition()

    def start(self, place: Place, build: BuildRecord) -> None:
        """Set a build on its way."""
        run = BuildRun(self._bench, place, build)
        thread = threading.Thread(
            target=self._run, args=(place, build, run), name=f"build {build.name}", daemon=True
        )
        with self._changed:
            self._runs[place, build.name] = run, thread
            self._waiting.setdefault((place, build.project), []).append(run)
            # Before anybody can find it: only a thread that has started can be waited for.
            thread.start()

    def stop(self, place: Place, build_id: str) -> None:
        """Stop a build and wait until nothing of it runs; one that has ended stays as it is."""
        with self._changed:
            found = self._runs.get((place, build_id))
        if found is None:
            return
        run, thread = found
        run.end("STOPPED")
        self._wake()
        thread.join(_STOP_PATIENCE_S)

    def close(self) -> None:
        """End every build: this cloud ends, and they cannot go on without it."""
        with self._changed:
            running = list(self._runs.values())
        for run, _ in running:
            run.end(*_CLOSED)
        self._wake()
        for _, thread in running:
            thread.join(_STOP_PATIENCE_S)

    def interrupted(self) -> None:
        """Tell of builds that were on their way when an earlier cloud of this state ended."""
        for place, build in self._bench.store.builds.everywhere():
            if not build.complete and (place, build.name) not in self._runs:
                self._bench.store.builds.change(place, build.name, lambda found: found.over(*_CLOSED))

    def _run(self, place: Place, build: BuildRecord, run: BuildRun) -> None:
        try:
            run.run(self._turn(place, build, run))
        finally:
            with self._changed:
                del self._runs[place, build.name]

    @contextmanager
    def _turn(self, place: Place, build: BuildRecord, run: BuildRun) -> Iterator[None]:
        key = place, build.project
        minutes = build.settings["queuedTimeoutInMinutes"]
        deadline = time.monotonic() + minutes * self._bench.minute_s
        with self._changed:
            try:
                came = self._changed.wait_for(
                    lambda: run.ended or self._is_next(key, run), timeout=deadline - time.monotonic()
                )
            finally:
                self._waiting[key].remove(run)
                self._changed.notify_all()
            if not came:
                words = f"Build has timed out. It was queued longer than {minutes} minutes."
                raise BuildEndedError("TIMED_OUT", "BUILD_TIMED_OUT", words)
            self._active[key] = self._active.get(key, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._active[key] -= 1
                self._changed.notify_all()

    def _is_next(self, key: Key, run: BuildRun) -> bool:
        project = self._bench.store.projects.get(*key)
        limit = project.fields.get("concurrentBuildLimit") if project else None
        return limit is None or (self._waiting[key][0] is run and self._active.get(key, 0) < limit)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
