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
    f"{FOUND_DEAD} The local cloud ended.",
)
Key = tuple[Scope, str]


class BuildPool:
    """Runs builds, never queued: there are no quotas, and projects reject builds beyond their limit."""

    def __init__(self, services: BuildServices) -> None:
        self._services = services
        self._runs: dict[Key, tuple[BuildRun, threading.Thread]] = {}
        self._lock = threading.Lock()

    def start(self, scope: Scope, build: BuildRecord) -> None:
        """Start a build."""
        run = BuildRun(self._services, scope, build)
        thread = threading.Thread(
            target=self._run, args=(scope, build, run), name=f"build {build.name}", daemon=True
        )
        with self._lock:
            self._runs[scope, build.name] = run, thread
            # Before it is registered: only a started thread can be joined.
            thread.start()

    def stop(self, scope: Scope, build_id: str) -> None:
        """Stop a build and wait for its end; finished builds do not change."""
        with self._lock:
            found = self._runs.get((scope, build_id))
        if found is None:
            return
        run, thread = found
        run.end("STOPPED")
        thread.join(_STOP_PATIENCE_S)

    def close(self) -> None:
        """End every build, because the cloud ends."""
        with self._lock:
            running = list(self._runs.values())
        for run, _ in running:
            run.end(*_CLOSED)
        for _, thread in running:
            thread.join(_STOP_PATIENCE_S)

    def interrupted(self) -> None:
        """Mark builds that were in progress when an earlier cloud ended as failed."""
        for scope, build in self._services.store.builds.everywhere():
            if not build.complete and (scope, build.name) not in self._runs:
                self._services.store.builds.change(scope, build.name, lambda found: found.over(*_CLOSED))

    def _run(self, scope: Scope, build: BuildRecord, run: BuildRun) -> None:
        try:
            run.run()
        finally:
            with self._lock:
                del self._runs[scope, build.name]
