"""Create, update, scale, and delete endpoints in background threads."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tritonstack.triton.connections import in_thread
from tritonstack_local.sagemaker.dependencies import Dependencies
from tritonstack_local.sagemaker.hosting.fleet import Fleet, InstancePool, TrafficSplit
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance
from tritonstack_local.sagemaker.hosting.status import Announce
from tritonstack_local.sagemaker.hosting.supply import (
    CLOSE_TIMEOUT_S,
    FAILURE_REASON_LIMIT,
    CloudEndingError,
    InstanceSupply,
    LaunchFailedError,
)
from tritonstack_local.sagemaker.hosting.updates import Update, UpdateFailedError, plan_rollout
from tritonstack_local.sagemaker.records import (
    EndpointRecord,
    PendingUpdate,
    SageMakerTables,
    Status,
    UpdateStage,
    VariantKey,
    VariantRecord,
    counts_of,
    now,
    weights_of,
)
from tritonstack_local.sagemaker.rules import invalid_invocation
from tritonstack_local.scope import Scope

# Poll interval of deletions, in seconds.
_STOP_AGAIN_S = 0.1

log = logging.getLogger(__name__)


class Hosting:
    """Running deployments by endpoint."""

    def __init__(
        self,
        *,
        store: SageMakerTables,
        supply: InstanceSupply,
        dependencies: Dependencies,
        announce: Announce,
    ) -> None:
        self._store = store
        self._announce = announce
        self._supply = supply
        self._dependencies = dependencies
        self._closing = threading.Event()
        self._serving: dict[tuple[Scope, str], TrafficSplit] = {}
        self._created: dict[tuple[Scope, str], threading.Event] = {}
        self._operations: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._weighing = threading.Lock()

    def create(self, endpoint: EndpointRecord) -> None:
        """Bring an endpoint from Creating to InService or Failed."""
        done = self._created[endpoint.plan.scope, endpoint.name] = threading.Event()

        def work() -> None:
            try:
                self._create(endpoint)
            finally:
                done.set()

        self._begin(endpoint, work, f"create {endpoint.name}")

    def update(self, endpoint: EndpointRecord, pending: PendingUpdate) -> None:
        """Update an endpoint in Updating to its new plan; keep the old one on failure."""
        self._begin(endpoint, lambda: self._update(endpoint, pending), f"update {endpoint.name}")

    def scale(self, endpoint: EndpointRecord, former: tuple[VariantRecord, ...]) -> None:
        """Scale an endpoint in Updating to the instances and weights in its record."""
        self._begin(endpoint, lambda: self._scale(endpoint, former), f"scale {endpoint.name}")

    def weigh(self, endpoint: EndpointRecord) -> None:
        """Apply the latest weights in an endpoint's record."""
        scope, name = endpoint.plan.scope, endpoint.name
        with self._weighing:
            traffic, newest = self._traffic(scope, name), self._store.endpoints.get(scope, name)
            if traffic is not None and newest is not None:
                traffic.fleet.weigh(weights_of(newest.variants))

    def delete(self, endpoint: EndpointRecord) -> None:
        """Stop and remove an endpoint in Deleting."""
        self._begin(endpoint, lambda: self._delete(endpoint), f"delete {endpoint.name}")

    def resume(self) -> None:
        """Start the endpoints of an earlier cloud, and complete creations and deletions."""
        for _, endpoint in self._store.endpoints.everywhere():
            if endpoint.status == "Deleting":
                self.delete(endpoint)
            elif endpoint.status == "Creating":
                self.create(endpoint)
            elif endpoint.status != "Failed":
                self._restore(endpoint)

    async def reserve(
        self, scope: Scope, endpoint: str, *, variant: str | None, target: str | None, deadline: float
    ) -> tuple[InstancePool, EndpointInstance]:
        """Reserve an instance of the named or next variant for one request, until `release` of its pool.

        If the pool is being replaced, its successor is used. Raises NoInstanceError if no instance can take
        the request before the deadline.
        """
        while True:
            pool = self._pool(scope, endpoint, variant)
            instance = pool.acquire_now(target)
            if instance is None:
                instance = await in_thread(partial(pool.acquire, target, deadline=deadline))
            if instance is not None:
                return pool, instance

    def fleets(self, scope: Scope, endpoint: str) -> tuple[Fleet | None, Fleet | None]:
        """Return an endpoint's current fleet and its new one."""
        traffic = self._traffic(scope, endpoint)
        return (None, None) if traffic is None else (traffic.fleet, traffic.arriving)

    def servers_of(self, scope: Scope, endpoint: str, variant: str) -> int:
        """Return the number of servers that this machine runs for a variant."""
        traffic = self._traffic(scope, endpoint)
        pool = None if traffic is None else traffic.fleet.pools.get(variant)
        return 0 if pool is None else len(pool.instances)

    def instances_of(self, scope: Scope, endpoint: str, variant: str) -> int:
        """Return the number of instances of a variant, of which this machine may run fewer."""
        traffic = self._traffic(scope, endpoint)
        return 0 if traffic is None else traffic.instances_of(variant)

    def concurrency(self) -> Iterator[tuple[VariantKey, int]]:
        """Yield the concurrent requests per instance of each variant."""
        with self._lock:
            serving = list(self._serving.values())
        for traffic in serving:
            pools = traffic.fleet.pools.values()
            yield from ((pool.plan.key, pool.concurrency) for pool in pools if pool.size)

    @property
    def live(self) -> list[EndpointInstance]:
        """All instances of all endpoints."""
        return self._supply.live

    def close(self) -> None:
        """End everything now; running requests fail."""
        self._closing.set()
        self._supply.close()
        with self._lock:
            operations = list(self._operations)
        for thread in operations:
            thread.join(timeout=CLOSE_TIMEOUT_S)

    def _traffic(self, scope: Scope, endpoint: str) -> TrafficSplit | None:
        return self._serving.get((scope, endpoint))

    def _pool(self, scope: Scope, endpoint: str, variant: str | None) -> InstancePool:
        traffic = self._traffic(scope, endpoint)
        if traffic is None or self._closing.is_set():
            raise invalid_invocation(f"Endpoint {endpoint} of account {scope.account} not found.")
        pool = traffic.choose(variant)
        if pool is None:
            raise invalid_invocation(f"Variant {variant} not found for endpoint {endpoint}.")
        return pool

    def _create(self, endpoint: EndpointRecord) -> None:
        counts = counts_of(endpoint.variants)
        launching = {name: f"Launching {count} instance(s)." for name, count in counts.items()}
        self._report(endpoint, UpdateStage("Creating", launching, now()))
        self._launch(endpoint, self._supply.fleet(endpoint.plan))

    def _restore(self, endpoint: EndpointRecord) -> None:
        """Start an endpoint's instances; requests wait for them. An interrupted update is dropped."""
        self._move(endpoint, lambda record: record.settled("SystemUpdating"))
        fleet = self._supply.fleet(endpoint.plan, weights_of(endpoint.variants))
        self._serve(endpoint, fleet)
        self._spawn(endpoint, lambda: self._launch(endpoint, fleet), f"resume {endpoint.name}")

    def _launch(self, endpoint: EndpointRecord, fleet: Fleet) -> None:
        """Start an endpoint's instances; it becomes InService or Failed, unless it is being deleted."""
        try:
            self._supply.grow(fleet, counts_of(endpoint.variants))
        except LaunchFailedError as failed:
            reason = failed.message
            with self._lock:
                self._serving.pop((endpoint.plan.scope, endpoint.name), None)
            self._supply.retire(fleet)
            self._move(endpoint, lambda record: _unless_deleting(record, "Failed", failure_reason=reason))
            return
        self._serve(endpoint, fleet)
        self._move(endpoint, lambda record: _unless_deleting(record, "InService"))

    def _update(self, endpoint: EndpointRecord, pending: PendingUpdate) -> None:
        traffic = self._serving[endpoint.plan.scope, endpoint.name]
        fleet = self._supply.fleet(pending.plan, weights_of(pending.variants))
        old = counts_of(endpoint.variants)
        update = Update(
            scope=endpoint.plan.scope,
            rollout=plan_rollout(pending.deployment_config, new=counts_of(pending.variants), old=old),
            traffic=traffic,
            fleet=fleet,
            supply=self._supply,
            dependencies=self._dependencies,
            closing=self._closing,
            report=lambda stage: self._report(endpoint, stage),
        )
        try:
            update.carry_out()
        except (LaunchFailedError, UpdateFailedError) as failed:
            reason = failed.message[:FAILURE_REASON_LIMIT]
            self._move(endpoint, lambda record: record.moved_to("RollingBack", failure_reason=reason))
            update.roll_back(old)
            self._move(endpoint, lambda record: record.settled("InService"))
            return
        self._move(
            endpoint,
            lambda record: record.settled(
                "InService",
                failure_reason=None,
                plan=pending.plan,
                variants=pending.variants,
                deployment_config=pending.deployment_config,
            ),
        )

    def _scale(self, endpoint: EndpointRecord, former: tuple[VariantRecord, ...]) -> None:
        fleet = self._serving[endpoint.plan.scope, endpoint.name].fleet
        counts, before = counts_of(endpoint.variants), counts_of(former)
        scaling = {
            name: f"Scaling {'out' if count > before[name] else 'in'} desired instance count to {count}."
            for name, count in counts.items()
            if count != before[name]
        }
        self._report(endpoint, UpdateStage("Updating", scaling, now()))
        try:
            self._supply.grow(fleet, counts, provisioning_s=self._dependencies.provisioning_s)
        except LaunchFailedError as failed:
            reason = failed.message
            self._move(endpoint, lambda record: record.moved_to("RollingBack", failure_reason=reason))
            self._move(endpoint, lambda record: record.settled("InService", variants=former))
            return
        fleet.weigh(weights_of(endpoint.variants))
        self._supply.shrink(fleet, counts)
        self._move(endpoint, lambda record: record.settled("InService", failure_reason=None))

    def _delete(self, endpoint: EndpointRecord) -> None:
        scope = endpoint.plan.scope
        self._stop_creation(scope, endpoint.name)
        with self._lock:
            traffic = self._serving.pop((scope, endpoint.name), None)
        if traffic is not None:
            self._supply.retire(traffic.fleet)
        shutil.rmtree(self._supply.endpoint_folder(scope, endpoint.name), ignore_errors=True)
        self._store.tags.forget(endpoint.arn)
        self._store.endpoints.remove(scope, endpoint.name)

    def _stop_creation(self, scope: Scope, name: str) -> None:
        """End the instances of an endpoint's creation, and wait for the creation to stop."""
        done = self._created.pop((scope, name), None)
        if done is None:
            return
        with self._supply.launches_canceled(scope, name):
            while not done.wait(_STOP_AGAIN_S):
                launched = [
                    item for item in self.live if (item.plan.scope, item.plan.endpoint) == (scope, name)
                ]
                self._supply.stop(launched, grace_s=0)
                if self._closing.is_set():
                    raise CloudEndingError("The local cloud is stopping.")

    def _recover(self, endpoint: EndpointRecord, reason: str) -> None:
        """Settle an endpoint after an internal error: keep serving instances, end new ones."""
        traffic = self._traffic(endpoint.plan.scope, endpoint.name)
        arriving = None if traffic is None else traffic.arriving
        if traffic is not None and arriving is not None:
            traffic.withdraw()
            self._supply.retire(arriving)
        serves = traffic is not None and any(pool.instances for pool in traffic.fleet.pools.values())

        status: Status = "InService" if serves else "Failed"
        self._move(endpoint, lambda record: record.settled(status, failure_reason=reason))

    def _serve(self, endpoint: EndpointRecord, fleet: Fleet) -> None:
        with self._lock:
            self._serving.setdefault((endpoint.plan.scope, endpoint.name), TrafficSplit(fleet))

    def _report(self, endpoint: EndpointRecord, stage: UpdateStage) -> None:
        self._move(endpoint, lambda record: replace(record, stage=stage))

    def _move(self, endpoint: EndpointRecord, step: Callable[[EndpointRecord], EndpointRecord]) -> None:
        before: EndpointRecord | None = None

        def noted(record: EndpointRecord) -> EndpointRecord:
            nonlocal before
            before = record
            return step(record)

        after = self._store.endpoints.change(endpoint.plan.scope, endpoint.name, noted)
        if after is not None:
            self._announce(before, after, self.fleets(endpoint.plan.scope, endpoint.name))

    def _begin(self, endpoint: EndpointRecord, work: Callable[[], None], name: str) -> None:
        """Start a requested operation, already in the endpoint's record."""

        def guarded() -> None:
            self._announce(None, endpoint, self.fleets(endpoint.plan.scope, endpoint.name))
            work()

        self._spawn(endpoint, guarded, name)

    def _spawn(self, endpoint: EndpointRecord, work: Callable[[], None], name: str) -> None:
        """Run an operation in a thread of its own; no error leaves the endpoint in progress."""

        def run() -> None:
            try:
                work()
            except CloudEndingError:
                log.info("%s: interrupted by the end of the cloud", name)
            except Exception as error:
                log.exception("%s", name)
                self._recover(endpoint, f"Internal failure: {error}"[:FAILURE_REASON_LIMIT])
            finally:
                with self._lock:
                    self._operations.discard(thread)

        thread = threading.Thread(target=run, name=name, daemon=True)
        with self._lock:
            self._operations.add(thread)
        thread.start()


def _unless_deleting(record: EndpointRecord, status: Status, **changes: Any) -> EndpointRecord:
    """Settle a creation, unless the endpoint is being deleted."""
    return record if record.status == "Deleting" else record.settled(status, **changes)
