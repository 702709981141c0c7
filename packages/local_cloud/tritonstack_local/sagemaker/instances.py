"""An instance of a variant: a container that runs a server, restarted in the same place when it dies."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tritonstack.runtime import TritonFailedError, TritonRequestError
from tritonstack_local.sagemaker import health
from tritonstack_local.sagemaker.logs import LogShipper
from tritonstack_local.sagemaker.multi_model import HostedModels
from tritonstack_local.sagemaker.plans import DeploymentPlan
from tritonstack_local.sagemaker.servers import Server

RESTART_GRACE_S = 5.0


@dataclass(frozen=True)
class Container:
    """A server that was started. `models` are those of a multi-model one; others load theirs at the start."""

    server: Server
    models: HostedModels | None

    def stop(self, *, grace_s: float) -> None:
        """End it."""
        if self.models is not None:
            self.models.close()
        self.server.stop(grace_s=grace_s)


StartContainer = Callable[[int], Container]
"""Starts an instance's container for the first, second ... time; returns before it is ready."""


class Instance:
    """A place where a variant's container runs. Who takes requests to it is told of every change."""

    def __init__(
        self, *, plan: DeploymentPlan, id_: str, folder: Path, start: StartContainer, log: LogShipper
    ) -> None:
        self.plan = plan
        self.id = id_
        self.folder = folder
        self.on_change: Callable[[], None] = _nobody
        self._start = start
        self._log = log
        self._starts = 0
        self._container: Container | None = None
        self._ready = False
        self._suspect = False
        self._ended = False
        self._woken = threading.Condition()
        self._watch = threading.Thread(target=health.watch, args=(self,), name=self.name, daemon=True)

    @property
    def name(self) -> str:
        """What the log calls it."""
        return f"endpoint {self.plan.endpoint}, {self.plan.variant}/{self.id}"

    @property
    def container(self) -> Container:
        """The container that runs, or the last one that did."""
        if self._container is None:
            raise ValueError(f"{self.name} has not been started")
        return self._container

    @property
    def available(self) -> bool:
        """Whether it can take a request."""
        return self._ready and not self._suspect

    @property
    def suspect(self) -> bool:
        """Whether a request could not reach it; it gets no other until it has answered a ping."""
        return self._suspect

    @property
    def running(self) -> bool:
        """Whether its container has not ended."""
        return self.container.server.running

    def launch(self) -> None:
        """Start the container and wait until it is ready; what fails raises."""
        self._bring_up()
        self._watch.start()

    def doubt(self) -> None:
        """Note that a request has failed to reach it."""
        with self._woken:
            self._suspect = True
            self._woken.notify_all()

    def ended_within(self, seconds: float) -> bool:
        """Wait so long, less if a request has just failed; say whether the instance has been stopped."""
        with self._woken:
            was_suspect = self._suspect
            self._woken.wait_for(lambda: self._ended or self._suspect != was_suspect, timeout=seconds)
            return self._ended

    def answers_ping(self, timeout_s: float) -> bool:
        """Ping it; a good answer takes suspicion away. One that unloads a model need not answer."""
        answered = False
        models = self.container.models
        with contextlib.suppress(TritonFailedError, TritonRequestError):
            answer = self.container.server.request("GET", "/ping", body=b"", headers={}, timeout_s=timeout_s)
            answered = answer.status == 200
        if answered and self._suspect:
            self._suspect = False
            self.on_change()
        return answered or (models is not None and models.unloading)

    def restart(self) -> None:
        """Put a new container in the place of this one, or raise."""
        self._ready = False
        self.container.stop(grace_s=RESTART_GRACE_S)
        self._bring_up()

    def stop(self, *, grace_s: float) -> None:
        """End the server, send the rest of its log and drop what it ran; the log files stay."""
        with self._woken:
            self._ended = True
            self._woken.notify_all()
            container = self._container
        if container is not None:
            container.stop(grace_s=grace_s)
        if self._watch.is_alive():
            self._watch.join()
        self._log.stop()
        for folder in self.folder.glob("model*"):
            shutil.rmtree(folder, ignore_errors=True)

    def _bring_up(self) -> None:
        if self.ended_within(0):
            raise TritonFailedError(f"{self.name} has been stopped")
        self._starts += 1
        container = self._start(self._starts)
        with self._woken:
            self._container = container
            ended: object = self._ended  # which another thread may have set meanwhile
        self._log.follow(container.server.log_path)
        if ended:  # between the start and the line above
            container.stop(grace_s=0)
        container.server.wait_ready(timeout_s=self.plan.startup_timeout_s)
        self._ready, self._suspect = True, False
        self.on_change()


def _nobody() -> None:
    """Nobody takes requests there yet."""
