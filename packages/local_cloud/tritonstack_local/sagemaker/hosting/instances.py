"""Run and monitor the server of one instance; restart it when it dies or hangs."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tritonstack.triton import TritonFailedError, TritonRequestError
from tritonstack_local.sagemaker.records import DeploymentPlan
from tritonstack_local.sagemaker.servers.logs import LogShipper
from tritonstack_local.sagemaker.servers.models import HostedModels
from tritonstack_local.sagemaker.servers.server import Server

# Poll interval for dead containers. A request that does not reach one has it checked at once.
POLL_S = 1.0
PING_EVERY_S = 5.0
# Pauses after a failed restart.
PING_AGAIN_S = 2.0
# SageMaker's timeout of /ping.
PING_TIMEOUT_S = 2.0
# Consecutive failed pings after which a running container is restarted.
FAILED_PINGS = 3
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0

log = logging.getLogger(__name__)


def watch(instance: EndpointInstance) -> None:
    """Monitor an instance until it ends."""
    failed, next_ping = 0, time.monotonic() + PING_EVERY_S
    while not instance.ended_within(POLL_S):
        # A request could not reach it: check at once.
        doubted = instance.suspect and not failed
        if not instance.running:
            _restart(instance, "has ended")
            failed = 0
        elif not doubted and time.monotonic() < next_ping:
            continue
        elif instance.answers_ping(PING_TIMEOUT_S):
            failed = 0
        else:
            failed += 1
            if failed == FAILED_PINGS:
                _restart(instance, f"has not answered {FAILED_PINGS} pings")
                failed = 0
        next_ping = time.monotonic() + (PING_AGAIN_S if failed else PING_EVERY_S)


def _restart(instance: EndpointInstance, reason: str) -> None:
    """Restart, repeatedly if necessary; the endpoint stays InService."""
    pause_s = 0.0
    while not instance.ended_within(pause_s):
        log.warning("%s: container %s; restarting it", instance.name, reason)
        try:
            instance.restart()
        except Exception as error:  # any failure: this loop is the only one that restarts it
            log.debug("restarting %s", instance.name, exc_info=True)
            reason = f"could not be restarted ({error})"
            pause_s = min(max(_FIRST_PAUSE_S, 2 * pause_s), _LONGEST_PAUSE_S)
        else:
            return


RESTART_GRACE_S = 5.0


@dataclass(frozen=True)
class RunningContainer:
    """A running server. `models` is set for multi-model servers; others load their model at the start."""

    server: Server
    models: HostedModels | None

    def stop(self, *, grace_s: float) -> None:
        """End it."""
        if self.models is not None:
            self.models.close()
        self.server.stop(grace_s=grace_s)


StartContainer = Callable[[int], RunningContainer]
"""Starts an instance's container (first start or restart); returns before it is ready."""


class EndpointInstance:
    """An instance of a variant: runs its container, and reports changes to its pool."""

    def __init__(
        self, *, plan: DeploymentPlan, id_: str, folder: Path, start: StartContainer, log: LogShipper
    ) -> None:
        self.plan = plan
        self.id = id_
        self.folder = folder
        self.on_change: Callable[[], None] = lambda: None
        """Set by the pool that it serves in."""
        self._start = start
        self._log = log
        self._starts = 0
        self._container: RunningContainer | None = None
        self._ready = False
        self._suspect = False
        self._ended = False
        self._woken = threading.Condition()
        self._watch = threading.Thread(target=watch, args=(self,), name=self.name, daemon=True)

    @property
    def name(self) -> str:
        """Its name in logs."""
        return f"endpoint {self.plan.endpoint}, {self.plan.variant}/{self.id}"

    @property
    def container(self) -> RunningContainer:
        """The current or last container."""
        if self._container is None:
            raise ValueError(f"{self.name} has not been started")
        return self._container

    @property
    def available(self) -> bool:
        """Whether it can take requests."""
        return self._ready and not self._suspect

    @property
    def suspect(self) -> bool:
        """Whether a request failed to reach it; it gets no requests until it answers a ping."""
        return self._suspect

    @property
    def running(self) -> bool:
        """Whether its container is running."""
        return self.container.server.running

    def launch(self) -> None:
        """Start the container and wait until it is ready, or raise."""
        self._start_server()
        self._watch.start()

    def doubt(self) -> None:
        """Record that a request failed to reach it."""
        with self._woken:
            self._suspect = True
            self._woken.notify_all()

    def ended_within(self, seconds: float) -> bool:
        """Wait, shorter if a request fails; return whether the instance was stopped."""
        with self._woken:
            was_suspect = self._suspect
            self._woken.wait_for(lambda: self._ended or self._suspect != was_suspect, timeout=seconds)
            return self._ended

    def answers_ping(self, timeout_s: float) -> bool:
        """Ping it; a good response ends the suspicion. A server unloading a model may not respond."""
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
        """Replace its container, or raise."""
        self._ready = False
        self.container.stop(grace_s=RESTART_GRACE_S)
        self._start_server()

    def stop(self, *, grace_s: float) -> None:
        """End the server, send the rest of its log, and delete its model; log files are kept."""
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

    def _start_server(self) -> None:
        if self.ended_within(0):
            raise TritonFailedError(f"{self.name} has been stopped")
        self._starts += 1
        container = self._start(self._starts)
        with self._woken:
            self._container = container
            ended: object = self._ended  # possibly set by another thread meanwhile
        self._log.follow(container.server.log_path)
        if ended:  # closed during the start
            container.stop(grace_s=0)
        container.server.wait_ready(timeout_s=self.plan.startup_timeout_s)
        self._ready, self._suspect = True, False
        self.on_change()
