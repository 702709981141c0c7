"""Run builds, one thread each."""

from __future__ import annotations

import threading

from tritonstack_local.codebuild.records import BuildRecord, Status
from tritonstack_local.codebuild.runs.build_run import FOUND_DEAD, BuildRun, BuildServices
from tritonstack_local.identity.scope import Scope

_STOP_PATIENCE_S = 30.0
_CLOSED: tuple[Status, str, str] = (
    "FAULT",
    "INTERNAL_SERVICE_ERROR",
    f"{FOUND_DEAD} The embedded cloud ended.",
)
Key = tuple[Scope, str]


class BuildPool:
    """Runs builds. None waits for its turn: here are no quotas, and projects refuse beyond their limit."""

    def __init__(self, services: BuildServices) -> None:
        self._services = services
        self._runs: dict[Key, tuple[BuildRun, threading.Thread]] = {}
        self._lock = threading.Lock()

    def start(self, scope: Scope, build: BuildRecord) -> None:
        """Set a build on its way."""
        run = BuildRun(self._services, scope, build)
        thread = threading.Thread(
            target=self._run, args=(scope, build, run), name=f"build {build.name}", daemon=True
        )
        with self._lock:
            self._runs[scope, build.name] = run, thread
            # Before anybody can find it: only a thread that has started can be waited for.
            thread.start()

    def stop(self, scope: Scope, build_id: str) -> None:
        """Stop a build and wait until nothing of it runs; one that has ended stays as it is."""
        with self._lock:
            found = self._runs.get((scope, build_id))
        if found is None:
            return
        run, thread = found
        run.end("STOPPED")
        thread.join(_STOP_PATIENCE_S)

    def close(self) -> None:
        """End every build: this cloud ends, and they cannot go on without it."""
        with self._lock:
            running = list(self._runs.values())
        for run, _ in running:
            run.end(*_CLOSED)
        for _, thread in running:
            thread.join(_STOP_PATIENCE_S)

    def interrupted(self) -> None:
        """Tell of builds that were on their way when an earlier cloud of this state ended."""
        for scope, build in self._services.store.builds.everywhere():
            if not build.complete and (scope, build.name) not in self._runs:
                self._services.store.builds.change(scope, build.name, lambda found: found.over(*_CLOSED))

    def _run(self, scope: Scope, build: BuildRecord, run: BuildRun) -> None:
        try:
            run.run()
        finally:
            with self._lock:
                del self._runs[scope, build.name]
