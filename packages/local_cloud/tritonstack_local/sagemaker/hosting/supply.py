"""Launch instances up to the requested count, and retire them.

Each is launched in a folder of its own: its archive is downloaded and unpacked, and its server started.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.triton import TritonFailedError
from tritonstack_local.sagemaker.dependencies import Dependencies, limits_of, volume_bytes
from tritonstack_local.sagemaker.hosting.capture import Capture
from tritonstack_local.sagemaker.hosting.fleet import Fleet, InstancePool
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance, RunningContainer
from tritonstack_local.sagemaker.records import DeploymentPlan, EndpointPlan, weights_of
from tritonstack_local.sagemaker.servers import artifacts
from tritonstack_local.sagemaker.servers.downloads import Downloads
from tritonstack_local.sagemaker.servers.logs import LogShipper, log_group
from tritonstack_local.sagemaker.servers.models import HostedModels
from tritonstack_local.sagemaker.servers.server import Server, ServerOrder, StartServer, introduction
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ReplyError

MODEL_FOLDER = "model"
# Maximum length of FailureReason in the service model.
FAILURE_REASON_LIMIT = 1024
# A request takes at most a minute (invocations.py).
DRAIN_TIMEOUT_S = 65.0
# Time between SIGTERM and SIGKILL in SageMaker.
STOP_GRACE_S = 30.0
# The same for a server that did not become ready.
FAILED_GRACE_S = 5.0
# Servers end with this process anyway; waiting longer has no benefit.
CLOSE_TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


class CloudEndingError(ReplyError):
    """The cloud is stopping."""


class LaunchFailedError(ReplyError):
    """An instance failed to launch; the message is the endpoint's FailureReason."""


class InstanceSupply:
    """Launches, counts, and retires instances. Thread-safe."""

    def __init__(self, dependencies: Dependencies, start_server: StartServer) -> None:
        self._dependencies = dependencies
        self._start_server = start_server
        self._live: set[EndpointInstance] = set()
        self._pools: set[InstancePool] = set()
        self._unwanted: set[tuple[Scope, str]] = set()
        self._ending = threading.Event()
        self._lock = threading.Lock()

    @property
    def live(self) -> list[EndpointInstance]:
        """All instances: starting, in service, and retiring."""
        with self._lock:
            return list(self._live)

    def endpoint_folder(self, scope: Scope, endpoint: str) -> Path:
        """Return the folder of an endpoint's instances."""
        return self._dependencies.folder / scope.account / scope.region / endpoint

    def fleet(self, plan: EndpointPlan, weights: Mapping[str, float] | None = None) -> Fleet:
        """Create a fleet without instances."""
        pools = [InstancePool(variant.plan, capture=self._capture(variant.plan)) for variant in plan.variants]
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

    @contextmanager
    def launches_canceled(self, scope: Scope, endpoint: str) -> Iterator[None]:
        """Cancel all launches of an endpoint that is being deleted."""
        self._unwanted.add((scope, endpoint))
        try:
            yield
        finally:
            self._unwanted.discard((scope, endpoint))

    def close(self) -> None:
        """End everything now; running requests fail."""
        self._ending.set()
        with self._lock:
            pools = list(self._pools)
        for pool in pools:
            pool.abandon()
        self.stop(self.live, grace_s=0)
        for pool in pools:
            if pool.capture is not None:
                pool.capture.stop()

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
            raise CloudEndingError("The local cloud is stopping.") if self._ending.is_set() else failed[0]
        if self._ending.wait(max(0.0, ready - time.monotonic())):
            raise CloudEndingError("The local cloud is stopping.")
        for (pool, _), instance in zip(missing, launched, strict=True):
            if isinstance(instance, EndpointInstance):
                pool.add([instance])

    def _missing(self, pool: InstancePool, count: int) -> list[list[str]]:
        """Return the first log lines of each instance to launch."""
        running = len(pool.instances)
        limit = self._dependencies.machine.holds(count, running=running)
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
        """Launch an instance that is ready, or return the failure; then nothing is left of it but its log."""
        name = f"i-{secrets.token_hex(8)}"
        folder = self.endpoint_folder(plan.scope, plan.endpoint) / name
        instance, has_log = None, False
        try:
            (folder / MODEL_FOLDER).mkdir(parents=True)
            artifacts.open_folders(folder / MODEL_FOLDER)
            self._fetch(plan, folder / MODEL_FOLDER)
            instance = EndpointInstance(
                plan=plan,
                id_=name,
                folder=folder,
                start=lambda number: self._start(plan, folder, number),
                log=self._ship_log(plan, name, notes),
            )
            self._begin(instance)
            instance.launch()
            return instance
        except TritonFailedError as error:
            reason, has_log = _ping_failed(plan, error), True
        except (TritonstackError, OSError, ClientError, BotoCoreError) as error:
            reason = _message(error)
        except Exception as error:
            log.exception("launching endpoint %s", plan.endpoint)
            reason = f"Internal failure: {error}"
        if instance is not None:
            self.stop([instance], grace_s=FAILED_GRACE_S)
        if not has_log:
            shutil.rmtree(folder, ignore_errors=True)
        return LaunchFailedError(reason[:FAILURE_REASON_LIMIT])

    def _begin(self, instance: EndpointInstance) -> None:
        """Register an instance before its server starts, so that another thread can stop it."""
        with self._lock:
            self._live.add(instance)
        if self._ending.is_set():
            self.stop([instance], grace_s=0)

    def _capture(self, plan: DeploymentPlan) -> Capture | None:
        """Start data capture if the variant's plan enables it."""
        if plan.capture is None:
            return None
        s3 = self._dependencies.clients.client("s3", plan.scope)
        return Capture(settings=plan.capture, s3=s3, endpoint=plan.endpoint, variant=plan.variant)

    def _check_wanted(self, plan: DeploymentPlan) -> None:
        if self._ending.is_set():
            raise LaunchFailedError("The local cloud was stopped.")
        if (plan.scope, plan.endpoint) in self._unwanted:
            raise LaunchFailedError("The endpoint was deleted.")

    def _start(self, plan: DeploymentPlan, folder: Path, number: int) -> RunningContainer:
        """Start a container; a restarted one has its model, a restarted multi-model one has no models."""
        self._check_wanted(plan)
        model_root, state_dir = folder / MODEL_FOLDER, folder / f"container-{number}"
        if plan.multi_model and number > 1:
            for former in folder.glob(f"{MODEL_FOLDER}*"):
                shutil.rmtree(former, ignore_errors=True)
            model_root = folder / f"{MODEL_FOLDER}-{number}"
            model_root.mkdir()
            artifacts.open_folders(model_root)
        state_dir.mkdir()
        order = ServerOrder(
            model_root=model_root, environment=plan.environment, state_dir=state_dir, image=plan.image
        )
        server = self._start_server(order)
        return RunningContainer(server=server, models=self._hosted_models(plan, server, model_root))

    def _hosted_models(self, plan: DeploymentPlan, server: Server, folder: Path) -> HostedModels | None:
        """Return the models of a multi-model server; None for single-model servers."""
        if not plan.multi_model or plan.model_data_url is None:
            return None

        s3 = self._dependencies.clients.client("s3", plan.scope)
        return HostedModels(
            server=server,
            downloads=Downloads(
                s3=s3,
                url=plan.model_data_url,
                folder=folder,
                volume_bytes=volume_bytes(plan.instance_type, plan.volume_gb),
            ),
            limits=limits_of(plan.instance_type, loaded_models=self._dependencies.loaded_models),
            measure=plan.key.measure,
            keep=plan.model_cache,
        )

    def _fetch(self, plan: DeploymentPlan, model_root: Path) -> None:
        if plan.model_data_url is None or plan.multi_model:
            return
        deadline = time.monotonic() + plan.download_timeout_s

        def checkpoint() -> None:
            self._check_wanted(plan)
            if time.monotonic() > deadline:
                raise LaunchFailedError(
                    f'Model data at "{plan.model_data_url}" was not downloaded and unpacked within '
                    f"ModelDataDownloadTimeoutInSeconds, {plan.download_timeout_s:g} s."
                )

        artifacts.fetch(
            self._dependencies.clients.client("s3", plan.scope),
            url=plan.model_data_url,
            to=model_root,
            container=plan.container,
            checkpoint=checkpoint,
            space=artifacts.Space(volume_bytes(plan.instance_type, plan.volume_gb)),
        )

    def _ship_log(self, plan: DeploymentPlan, instance: str, notes: list[str]) -> LogShipper:
        preface = [introduction(self._start_server, plan.image), *notes]
        for line in preface:
            log.info("endpoint %s, %s: %s", plan.endpoint, plan.variant, line)
        return LogShipper(
            client=self._dependencies.clients.client("logs", plan.scope),
            group=log_group(plan.endpoint),
            stream=f"{plan.variant}/{instance}",
            preface=preface,
        )


def _message(failure: BaseException) -> str:
    if not isinstance(failure, TritonstackError):
        return str(failure)
    return f"{failure.message} (help: {failure.remedy})" if failure.remedy else failure.message


def _ping_failed(plan: DeploymentPlan, failure: TritonFailedError) -> str:
    return (
        f"The primary container for production variant {plan.variant} did not pass the ping health check. "
        f"Please check CloudWatch logs for this endpoint. {failure.message}"
    )
