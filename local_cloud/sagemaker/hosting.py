"""Moves endpoints through their states: threads that launch, swap and retire deployments."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from local_cloud.places import Place
from local_cloud.sagemaker.deployment import Deployment, Launcher, LaunchFailedError
from local_cloud.sagemaker.faults import invocation_refused
from local_cloud.sagemaker.fleet import Fleet, weights_of
from local_cloud.sagemaker.plans import DeploymentPlan, EndpointPlan
from local_cloud.sagemaker.records import EndpointRecord, Store, VariantRecord

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
    """The fleets that serve, by endpoint."""

    def __init__(self, *, store: Store, launcher: Launcher) -> None:
        self._store = store
        self._launcher = launcher
        self._serving: dict[tuple[Place, str], Fleet] = {}
        self._live: set[Deployment] = set()  # those that serve and those that are being retired
        self._reviving: set[Deployment] = set()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def create(self, plan: EndpointPlan) -> None:
        """Bring a new endpoint, whose record is Creating, into service or to Failed."""

        def work() -> None:
            fleet, reason = self._assembled(plan, plan.variants)
            if fleet is None:
                self._move(plan, lambda record: record.moved_to("Failed", failure_reason=reason))
                return
            self._swap(plan, fleet)
            self._move(plan, lambda record: record.moved_to("InService"))

        self._spawn(work, f"create {plan.endpoint}")

    def update(
        self, plan: EndpointPlan, *, variants: tuple[VariantRecord, ...], changes: dict[str, Any]
    ) -> None:
        """Replace what serves an endpoint, whose record is Updating; on failure the old stays.

        `variants` and `changes`, other fields of the record, hold from the moment the new fleet serves.
        """

        def work() -> None:
            fleet, reason = self._assembled(plan, variants)
            if fleet is None:
                self._move(
                    plan, lambda record: record.moved_to("InService", failure_reason=reason, pending=None)
                )
                return
            old = self._swap(plan, fleet)
            if old is not None:
                self._retire(old.deployments)
            self._move(
                plan,
                lambda record: record.moved_to(
                    "InService", failure_reason=None, pending=None, variants=variants, **changes
                ),
            )

        self._spawn(work, f"update {plan.endpoint}")

    def weigh(self, place: Place, endpoint: EndpointRecord) -> None:
        """Split an endpoint's traffic by the weights of its record."""
        fleet = self._serving.get((place, endpoint.name))
        if fleet is not None:
            fleet.weigh(weights_of(endpoint.variants))

    def delete(self, place: Place, endpoint: EndpointRecord) -> None:
        """Take an endpoint, whose record is Deleting, out of service and forget it."""

        def work() -> None:
            with self._lock:
                fleet = self._serving.pop((place, endpoint.name), None)
            if fleet is not None:
                self._retire(fleet.deployments)
            shutil.rmtree(self._launcher.endpoint_folder(place, endpoint.name), ignore_errors=True)
            self._store.tags.forget(endpoint.arn)
            self._store.endpoints.remove(place, endpoint.name)

        self._spawn(work, f"delete {endpoint.name}")

    @contextmanager
    def lease(self, place: Place, endpoint: str, *, variant: str | None) -> Iterator[Deployment]:
        """Hold a deployment of an endpoint for one request: the variant's, or the one whose turn it is.

        One that is just being replaced takes no request, and then its successor stands in its place.
        """
        while True:
            deployment = self._deployment(place, endpoint, variant)
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

    def _deployment(self, place: Place, endpoint: str, variant: str | None) -> Deployment:
        fleet = self._serving.get((place, endpoint))
        if fleet is None:
            raise invocation_refused(f"Endpoint {endpoint} of account {place.account} not found.")
        deployment = fleet.choose(variant)
        if deployment is None:
            raise invocation_refused(f"Variant {variant} not found for endpoint {endpoint}.")
        return deployment

    def _take_place_of(self, dead: Deployment) -> None:
        successor, reason = self._launched(dead.plan)
        if successor is None:  # the next request that finds nobody tries again
            log.error("endpoint %s: %s", dead.plan.endpoint, reason)
            return
        with self._lock:
            self._live.add(successor)
            fleet = self._serving.get((dead.plan.place, dead.plan.endpoint))
            # An update or a deletion may have come first.
            wanted = fleet is not None and fleet.put_in_place(successor, of=dead)
        self._retire([dead if wanted else successor])

    def _assembled(self, plan: EndpointPlan, variants: Iterable[VariantRecord]) -> tuple[Fleet | None, str]:
        """Launch every variant at once; where one fails, the others go too."""
        with ThreadPoolExecutor(len(plan.deployments)) as pool:
            launched = list(pool.map(self._launched, plan.deployments))
        deployments = [deployment for deployment, _ in launched if deployment is not None]
        if len(deployments) == len(launched):
            return Fleet(deployments, weights=weights_of(variants)), ""
        for deployment in deployments:
            deployment.stop(grace_s=STOP_GRACE_S)
        return None, next(reason for deployment, reason in launched if deployment is None)

    def _launched(self, plan: DeploymentPlan) -> tuple[Deployment | None, str]:
        """Launch, or say why not; an endpoint must never stay on its way for good."""
        try:
            return self._launcher.launch(plan), ""
        except LaunchFailedError as failed:
            return None, failed.message[:FAILURE_REASON_LIMIT]
        except Exception as fault:
            log.exception("launching endpoint %s", plan.endpoint)
            return None, f"Internal failure: {fault}"[:FAILURE_REASON_LIMIT]

    def _swap(self, plan: EndpointPlan, fleet: Fleet) -> Fleet | None:
        with self._lock:
            old = self._serving.get((plan.place, plan.endpoint))
            self._serving[plan.place, plan.endpoint] = fleet
            self._live.update(fleet.deployments)
            return old

    def _retire(self, deployments: Iterable[Deployment]) -> None:
        """Drain and stop, all at once: each takes its time."""

        def work(deployment: Deployment) -> None:
            deployment.drain(timeout_s=DRAIN_TIMEOUT_S)
            self._stop(deployment, STOP_GRACE_S)

        leaving = list(deployments)
        with ThreadPoolExecutor(len(leaving)) as pool:
            list(pool.map(work, leaving))

    def _stop(self, deployment: Deployment, grace_s: float) -> None:
        deployment.stop(grace_s=grace_s)
        with self._lock:
            self._live.discard(deployment)

    def _move(self, plan: EndpointPlan, step: Callable[[EndpointRecord], EndpointRecord]) -> None:
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
