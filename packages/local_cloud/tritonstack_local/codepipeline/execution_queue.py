"""Run executions; each stage runs one execution at a time, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tritonstack_local.codepipeline.actions.work import StartBuild
from tritonstack_local.codepipeline.errors import CloudEndsError
from tritonstack_local.codepipeline.execution_run import ExecutionRun, ExecutionServices
from tritonstack_local.codepipeline.records import CodePipelineTables, ExecutionRecord
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients

_Stage = tuple[Scope, str, str]
_ENDS_S = 10.0
_POLL_S = 0.5


class ExecutionQueue:
    """Runs executions, one thread each."""

    def __init__(self, *, store: CodePipelineTables, clients: Clients, start_build: StartBuild) -> None:
        self._store = store
        self._closing = threading.Event()
        self._services = ExecutionServices(store, clients, start_build, self, self._closing)
        self._changed = threading.Condition()
        self._inside: dict[_Stage, str] = {}
        self._waiting: dict[_Stage, list[str]] = {}
        self._threads: list[threading.Thread] = []

    def start(self, scope: Scope, execution: ExecutionRecord) -> None:
        """Start an execution."""
        run = ExecutionRun(self._services, scope, execution)
        thread = threading.Thread(target=run.run, name=f"pipeline {execution.pipeline}", daemon=True)
        with self._changed:
            self._threads = [other for other in self._threads if other.is_alive()] + [thread]
            thread.start()

    def resume(self) -> None:
        """Resume the executions of an earlier cloud, oldest first."""
        left = [
            (scope, execution)
            for scope, execution in self._store.executions.everywhere()
            if execution.status in {"InProgress", "Stopping"}
        ]
        left.sort(key=lambda item: item[1].number)
        for scope, execution in left:
            for stage, _ in (key for key, run in execution.actions.items() if run.status == "InProgress"):
                self._inside[scope, execution.pipeline, stage] = execution.name
        for scope, execution in left:
            self.start(scope, execution)

    def close(self) -> None:
        """Release all executions; the next cloud resumes them."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join(_ENDS_S)

    @contextmanager
    def turn(self, scope: Scope, pipeline: str, stage: str, execution: str) -> Iterator[bool]:
        """Wait for a stage; see execution_run.StageLocks."""
        key = scope, pipeline, stage
        with self._changed:
            waiting = self._waiting.setdefault(key, [])
            waiting.append(execution)
            try:
                mine = self._wait(key, execution)
            finally:
                waiting.remove(execution)
                self._changed.notify_all()
            if mine and not self._is_parallel(scope, execution):
                self._inside[key] = execution
        try:
            yield mine
        finally:
            with self._changed:
                if self._inside.get(key) == execution:
                    del self._inside[key]
                self._changed.notify_all()

    def _wait(self, key: _Stage, execution: str) -> bool:
        scope = key[0]
        while not self._closing.is_set():
            found = self._store.executions.get(scope, execution)
            if found is None:
                raise CloudEndsError("the pipeline has been deleted")
            if self._inside.get(key) == execution or self._is_parallel(scope, execution):
                return True
            waiting = self._waiting[key]
            if found.declaration["executionMode"] == "SUPERSEDED" and waiting[-1] != execution:
                return False
            if found.status == "Stopping" or (key not in self._inside and waiting[0] == execution):
                return True
            self._changed.wait(_POLL_S)
        raise CloudEndsError("the local cloud is stopping")

    def _is_parallel(self, scope: Scope, execution: str) -> bool:
        found = self._store.executions.get(scope, execution)
        return found is not None and found.declaration["executionMode"] == "PARALLEL"
