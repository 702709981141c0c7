"""Moves endpoints through their states: threads that launch, swap and retire deployments."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from local_cloud.sagemaker.deployment import Deployment, DeploymentPlan, Launcher, LaunchFailedError
from local_cloud.sagemaker.records import EndpointRecord, Place, Store

# The service model's limit for FailureReason.
FAILURE_REASON_LIMIT = 1024
# A request may take a minute (invocations.py); one that has not ended by then has no reader any more.
DRAIN_TIMEOUT_S = 65.0
STOP_GRACE_S = 30.0
CLOSE_GRACE_S = 2.0
# Servers end with this process in any case; waiting longer than this for them helps nobody.
CLOSE_TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


class Hosting:
    """The deployments that serve, by endpoint."""

    def __init__(self, *, store: Store, launcher: Launcher) -> None:
        self._store = store
        self._launcher = launcher
        self._serving: dict[tuple[Place, str], Deployment] = {}
        self._live: set[Deployment] = set()  # those that serve and those that are being retired
        self._reviving: set[Deployment] = set()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def create(self, plan: DeploymentPlan) -> None:
        """Bring a new endpoint, whose record is Creating, into service or to Failed."""

        def work() -> None:
            deployment, reason = self._launched(plan)
            if deployment is None:
                self._move(plan, lambda record: record.moved_to("Failed", failure_reason=reason))
                return
            self._swap(plan, deployment)
            self._move(plan, lambda record: record.moved_to("InService"))

        self._spawn(work, f"create {plan.endpoint}")

    def update(self, plan: DeploymentPlan, *, changes: dict[str, Any]) -> None:
        """Replace what serves an endpoint, whose record is Updating; on failure the old stays.

        `changes` are the record's fields that hold from the moment the new deployment serves.
        """

        def work() -> None:
            deployment, reason = self._launched(plan)
            if deployment is None:
                self._move(
                    plan, lambda record: record.moved_to("InService", failure_reason=reason, pending=None)
                )
                return
            old = self._swap(plan, deployment)
            if old is not None:
                self._retire(old)
            self._move(
                plan,
                lambda record: record.moved_to("InService", failure_reason=None, pending=None, **changes),
            )

        self._spawn(work, f"update {plan.endpoint}")

    def delete(self, place: Place, endpoint: EndpointRecord) -> None:
        """Take an endpoint, whose record is Deleting, out of service and forget it."""

        def work() -> None:
            with self._lock:
                deployment = self._serving.pop((place, endpoint.name), None)
            if deployment is not None:
                self._retire(deployment)
            shutil.rmtree(self._launcher.endpoint_folder(place, endpoint.name), ignore_errors=True)
            self._store.tags.forget(endpoint.arn)
            self._store.endpoints.remove(place, endpoint.name)

        self._spawn(work, f"delete {endpoint.name}")

    @contextmanager
    def lease(self, place: Place, endpoint: str) -> Iterator[Deployment | None]:
        """Hold the deployment that serves an endpoint for one request; None if none serves.

        One that is just being replaced takes no request, and then its successor stands in its place.
        """
        while True:
            deployment = self._serving.get((place, endpoint))
            if deployment is None:
                yield None
                return
            with deployment.request_slot() as admitted:
                if admitted:
                    yield deployment
                    return

    def revive(self, dead: Deployment) -> None:
        """Replace a deployment whose server has ended, as SageMaker restarts a container that has died."""
        with self._lock:
            if dead in self._reviving:
                return
            self._reviving.add(dead)
        log.warning("endpoint %s: its server has ended and is started again", dead.plan.endpoint)

        def work() -> None:
            try:
                self._take_place_of(dead)
            finally:
                with self._lock:
                    self._reviving.discard(dead)

        self._spawn(work, f"revive {dead.plan.endpoint}")

    def close(self) -> None:
        """End everything now; requests that are running break."""
        self._launcher.cancel()
        with self._lock:
            threads, live = list(self._threads), list(self._live)
        for deployment in live:
            deployment.abandon()
        stoppers = [
            threading.Thread(target=self._stop, args=(deployment, CLOSE_GRACE_S)) for deployment in live
        ]
        for stopper in stoppers:
            stopper.start()
        for thread in (*stoppers, *threads):
            thread.join(timeout=CLOSE_TIMEOUT_S)

    def _take_place_of(self, dead: Deployment) -> None:
        successor, reason = self._launched(dead.plan)
        if successor is None:  # the next request that finds nobody tries again
            log.error("endpoint %s: %s", dead.plan.endpoint, reason)
            return
        key = (dead.plan.place, dead.plan.endpoint)
        with self._lock:
            self._live.add(successor)
            wanted = self._serving.get(key) is dead  # else an update or a deletion came first
            if wanted:
                self._serving[key] = successor
        self._retire(dead if wanted else successor)

    def _launched(self, plan: DeploymentPlan) -> tuple[Deployment | None, str]:
        """Launch, or say why not; an endpoint must never stay on its way for good."""
        try:
            return self._launcher.launch(plan), ""
        except LaunchFailedError as failed:
            return None, failed.message[:FAILURE_REASON_LIMIT]
        except Exception as fault:
            log.exception("launching endpoint %s", plan.endpoint)
            return None, f"Internal failure: {fault}"[:FAILURE_REASON_LIMIT]

    def _swap(self, plan: DeploymentPlan, deployment: Deployment) -> Deployment | None:
        with self._lock:
            old = self._serving.get((plan.place, plan.endpoint))
            self._serving[plan.place, plan.endpoint] = deployment
            self._live.add(deployment)
            return old

    def _retire(self, deployment: Deployment) -> None:
        deployment.drain(timeout_s=DRAIN_TIMEOUT_S)
        self._stop(deployment, STOP_GRACE_S)

    def _stop(self, deployment: Deployment, grace_s: float) -> None:
        deployment.stop(grace_s=grace_s)
        with self._lock:
            self._live.discard(deployment)

    def _move(self, plan: DeploymentPlan, step: Callable[[EndpointRecord], EndpointRecord]) -> None:
        self._store.endpoints.change(plan.place, plan.endpoint, step)

    def _spawn(self, work: Callable[[], None], name: str) -> None:
        def run() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name=name, daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()
