"""Start instances up to the requested count, and retire instances."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tritonstack_local.sagemaker.hosting.deployment import Launcher, LaunchFailedError
from tritonstack_local.sagemaker.hosting.fleet import Fleet, InstancePool
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance
from tritonstack_local.sagemaker.records import DeploymentPlan, EndpointPlan, weights_of
from tritonstack_local.sagemaker.servers.limits import ServerSlots
from tritonstack_local.service.errors import ReplyError

# Maximum length of FailureReason in the service model.
FAILURE_REASON_LIMIT = 1024
# A request takes at most a minute (invocations.py).
DRAIN_TIMEOUT_S = 65.0
# Time between SIGTERM and SIGKILL in SageMaker.
STOP_GRACE_S = 30.0
# Servers end with this process anyway; waiting longer has no benefit.
CLOSE_TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


class CloudEndingError(ReplyError):
    """The cloud is stopping."""


class InstanceSupply:
    """Starts, counts, and retires instances. Thread-safe."""

    def __init__(self, *, launcher: Launcher, machine: ServerSlots) -> None:
        self._launcher = launcher
        self._machine = machine
        self._live: set[EndpointInstance] = set()
        self._pools: set[InstancePool] = set()
        self._closed = False
        self._ending = threading.Event()
        self._lock = threading.Lock()

    @property
    def live(self) -> list[EndpointInstance]:
        """All instances: starting, in service, and retiring."""
        with self._lock:
            return list(self._live)

    def fleet(self, plan: EndpointPlan, weights: Mapping[str, float] | None = None) -> Fleet:
        """Create a fleet without instances."""
        pools = [
            InstancePool(variant, capture=self._launcher.capture(variant)) for variant in plan.deployments
        ]
        with self._lock:
            self._pools.update(pools)
        return Fleet(pools, weights=weights or weights_of(plan.variants))

    def grow(self, fleet: Fleet, counts: Mapping[str, int], *, provisioning_s: float = 0.0) -> None:
        """Launch missing instances in parallel; if one fails, end the others and raise LaunchFailedError.

        Never launches more than the machine can hold. New instances serve after `provisioning_s` at the
        earliest.
        """
        ready = time.monotonic() + provisioning_s
        growing = {name: pool for name, pool in fleet.pools.items() if counts.get(name, 0) > pool.size}
        self._launch_missing(fleet, counts, ready=ready if growing else 0.0)
        for name, pool in growing.items():
            pool.represent(counts[name])

    def _launch_missing(self, fleet: Fleet, counts: Mapping[str, int], *, ready: float) -> None:
        missing = [
            (pool, notes)
            for name, pool in fleet.pools.items()
            for notes in self._missing(pool, counts.get(name, 0))
        ]
        with ThreadPoolExecutor(max(1, len(missing))) as threads:
            launched = list(threads.map(lambda item: self._launched(item[0].plan, item[1]), missing))
        failed = [item for item in launched if isinstance(item, LaunchFailedError)]
        if failed:
            self.stop([item for item in launched if isinstance(item, EndpointInstance)], grace_s=STOP_GRACE_S)
            raise CloudEndingError("The local cloud is stopping.") if self._closed else failed[0]
        if self._ending.wait(max(0.0, ready - time.monotonic())):
            raise CloudEndingError("The local cloud is stopping.")
        for (pool, _), instance in zip(missing, launched, strict=True):
            if isinstance(instance, EndpointInstance):
                pool.add([instance])

    def shrink(self, fleet: Fleet, counts: Mapping[str, int]) -> None:
        """Retire surplus instances after their requests are answered."""
        leaving = [
            (pool, instance)
            for name, pool in fleet.pools.items()
            for instance in pool.dismiss(keep=counts.get(name, 0))
        ]
        self._let_go(leaving)

    def retire(self, fleet: Fleet) -> None:
        """Retire a fleet; its waiting requests go elsewhere."""
        self._let_go([(pool, instance) for pool in fleet.pools.values() for instance in pool.close()])
        for pool in fleet.pools.values():
            if pool.capture is not None:
                pool.capture.stop()
        with self._lock:
            self._pools.difference_update(fleet.pools.values())

    def stop(self, instances: Iterable[EndpointInstance], *, grace_s: float) -> None:
        """End instances in parallel."""

        def work(instance: EndpointInstance) -> None:
            instance.stop(grace_s=grace_s)
            with self._lock:
                self._live.discard(instance)

        threads = [threading.Thread(target=work, args=(item,), daemon=True) for item in instances]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=grace_s + CLOSE_TIMEOUT_S)

    def close(self) -> None:
        """End everything now; running requests fail."""
        with self._lock:
            self._closed = True
            pools = list(self._pools)
        self._ending.set()
        self._launcher.cancel()
        for pool in pools:
            pool.abandon()
        self.stop(self.live, grace_s=0)
        for pool in pools:
            if pool.capture is not None:
                pool.capture.stop()

    def _missing(self, pool: InstancePool, count: int) -> list[list[str]]:
        """Return the first log lines of each instance to launch."""
        running = len(pool.instances)
        limit = self._machine.holds(count, running=running)
        notes = []
        if limit < count:
            notes = [f"{count} instances of {pool.plan.variant} are asked for; this machine holds {limit}."]
        return [notes] * (limit - running)

    def _let_go(self, leaving: list[tuple[InstancePool, EndpointInstance]]) -> None:
        def work(item: tuple[InstancePool, EndpointInstance]) -> None:
            pool, instance = item
            pool.drain(instance, timeout_s=DRAIN_TIMEOUT_S)
            self.stop([instance], grace_s=STOP_GRACE_S)

        if leaving:
            with ThreadPoolExecutor(len(leaving)) as threads:
                list(threads.map(work, leaving))

    def _launched(self, plan: DeploymentPlan, notes: list[str]) -> EndpointInstance | LaunchFailedError:
        """Launch an instance; return the failure, if any."""
        begun: list[EndpointInstance] = []

        def note(instance: EndpointInstance) -> None:
            begun.append(instance)
            self._begun(instance)

        try:
            return self._launcher.launch(plan, notes=notes, begun=note)
        except LaunchFailedError as failed:
            reason = failed.message
        except Exception as error:
            log.exception("launching endpoint %s", plan.endpoint)
            reason = f"Internal failure: {error}"
        self.stop(begun, grace_s=STOP_GRACE_S)
        return LaunchFailedError(reason[:FAILURE_REASON_LIMIT])

    def _begun(self, instance: EndpointInstance) -> None:
        with self._lock:
            self._live.add(instance)
            closed = self._closed
        if closed:
            self.stop([instance], grace_s=0)
