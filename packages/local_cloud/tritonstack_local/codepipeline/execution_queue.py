"""All executions that are on their way, and the order in which they enter a stage: one at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tritonstack_local.codepipeline.actions.work import StartBuild
from tritonstack_local.codepipeline.execution_run import ExecutionRun, Ground
from tritonstack_local.codepipeline.faults import CloudEndsError
from tritonstack_local.codepipeline.records import ExecutionRecord, Store
from tritonstack_local.identity.scope import Place
from tritonstack_local.service.clients import Clients

_Stage = tuple[Place, str, str]
_ENDS_S = 10.0
_LOOK_S = 0.5


class Line:
    """Runs executions, each in a thread of its own."""

    def __init__(self, *, store: Store, clients: Clients, start_build: StartBuild) -> None:
        self._store = store
        self._closing = threading.Event()
        self._ground = Ground(store, clients, start_build, self, self._closing)
        self._changed = threading.Condition()
        self._inside: dict[_Stage, str] = {}
        self._waiting: dict[_Stage, list[str]] = {}
        self._threads: list[threading.Thread] = []

    def start(self, place: Place, execution: ExecutionRecord) -> None:
        """Set an execution on its way."""
        run = ExecutionRun(self._ground, place, execution)
        thread = threading.Thread(target=run.run, name=f"pipeline {execution.pipeline}", daemon=True)
        with self._changed:
            self._threads = [other for other in self._threads if other.is_alive()] + [thread]
            thread.start()

    def resume(self) -> None:
        """Go on with what an earlier cloud has left on its way, the oldest first."""
        left = [
            (place, execution)
            for place, execution in self._store.executions.everywhere()
            if execution.status in {"InProgress", "Stopping"}
        ]
        left.sort(key=lambda item: item[1].number)
        for place, execution in left:
            for stage, _ in (key for key, run in execution.actions.items() if run.status == "InProgress"):
                self._inside[place, execution.pipeline, stage] = execution.name
        for place, execution in left:
            self.start(place, execution)

    def close(self) -> None:
        """Let go of everything; the next cloud goes on with it."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join(_ENDS_S)

    @contextmanager
    def turn(self, place: Place, pipeline: str, stage: str, execution: str) -> Iterator[bool]:
        """Wait for a stage; see execution_run.Turns."""
        key = place, pipeline, stage
        with self._changed:
            waiting = self._waiting.setdefault(key, [])
            waiting.append(execution)
            try:
                mine = self._wait(key, execution)
            finally:
                waiting.remove(execution)
                self._changed.notify_all()
            if mine and not self._is_parallel(place, execution):
                self._inside[key] = execution
        try:
            yield mine
        finally:
            with self._changed:
                if self._inside.get(key) == execution:
                    del self._inside[key]
                self._changed.notify_all()

    def _wait(self, key: _Stage, execution: str) -> bool:
        place = key[0]
        while not self._closing.is_set():
            found = self._store.executions.get(place, execution)
            if found is None:
                raise CloudEndsError("the pipeline has been deleted")
            if self._inside.get(key) == execution or self._is_parallel(place, execution):
                return True
            waiting = self._waiting[key]
            if found.declaration["executionMode"] == "SUPERSEDED" and waiting[-1] != execution:
                return False
            if found.status == "Stopping" or (key not in self._inside and waiting[0] == execution):
                return True
            self._changed.wait(_LOOK_S)
        raise CloudEndsError("the embedded cloud ends")

    def _is_parallel(self, place: Place, execution: str) -> bool:
        found = self._store.executions.get(place, execution)
        return found is not None and found.declaration["executionMode"] == "PARALLEL"
