"""One server behind an endpoint: what it runs, and its life from the archive in S3 to the last request."""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from catalog.errors import TritonstackError
from local_cloud.clients import Clients
from local_cloud.places import Place
from local_cloud.sagemaker import artifacts
from local_cloud.sagemaker.capture import Capture
from local_cloud.sagemaker.logs import LogShipper, log_group
from local_cloud.sagemaker.multi_model import HostedModels, Shelf
from local_cloud.sagemaker.plans import DeploymentPlan
from local_cloud.sagemaker.servers import Server, ServerOrder, StartServer
from triton_runtime import TritonFailedError

MODEL_FOLDER = "model"

log = logging.getLogger(__name__)


class LaunchFailedError(TritonstackError):
    """A deployment did not come up; the message is the endpoint's FailureReason."""


class Deployment:
    """A ready server and the requests that are running on it.

    `models` are those of a multi-model server, None where the server has one model, loaded from its start;
    `capture` keeps requests and answers, None where nothing is kept.
    """

    def __init__(
        self,
        *,
        plan: DeploymentPlan,
        server: Server,
        folder: Path,
        shipper: LogShipper,
        models: HostedModels | None,
        capture: Capture | None,
    ) -> None:
        self.plan = plan
        self.server = server
        self.models = models
        self.capture = capture
        self._folder = folder
        self._shipper = shipper
        self._in_flight = 0
        self._closed = False
        self._abandoned = False
        self._changed = threading.Condition()

    @contextmanager
    def request_slot(self) -> Iterator[bool]:
        """Hold the server for one request; gives False when it takes no more requests."""
        with self._changed:
            admitted = not self._closed
            self._in_flight += admitted
        try:
            yield admitted
        finally:
            with self._changed:
                self._in_flight -= admitted
                self._changed.notify_all()

    def drain(self, *, timeout_s: float) -> None:
        """Take no more requests and wait for those that are running."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._in_flight == 0 or self._abandoned, timeout=timeout_s)

    def abandon(self) -> None:
        """Wait for no request any more: this cloud is ending."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def stop(self, *, grace_s: float) -> None:
        """End the server, send the rest of its log and drop its models; the log file stays."""
        if self.models is not None:
            self.models.close()
        self.server.stop(grace_s=grace_s)
        self._shipper.stop()
        if self.capture is not None:
            self.capture.stop()
        shutil.rmtree(self._folder / MODEL_FOLDER, ignore_errors=True)


class Launcher:
    """Brings deployments up, each in a folder of its own below the endpoint's."""

    def __init__(self, *, folder: Path, clients: Clients, start_server: StartServer) -> None:
        self._folder = folder
        self._clients = clients
        self._start_server = start_server
        self._cancelled = threading.Event()
        self._starting: set[Server] = set()
        self._lock = threading.Lock()

    def endpoint_folder(self, place: Place, endpoint: str) -> Path:
        """Say where an endpoint's deployments live."""
        return self._folder / place.account / place.region / endpoint

    def launch(self, plan: DeploymentPlan) -> Deployment:
        """Fetch, unpack, start and wait until the server is ready; raise LaunchFailedError otherwise."""
        instance = f"i-{secrets.token_hex(8)}"
        folder = self.endpoint_folder(plan.place, plan.endpoint) / instance
        model_root = folder / MODEL_FOLDER
        model_root.mkdir(parents=True)
        s3 = self._clients.client("s3", plan.place)
        try:
            self._fetch(plan, s3, model_root)
            order = ServerOrder(
                model_root=model_root, environment=plan.environment, state_dir=folder, image=plan.image
            )
            server = self._start_server(order)
        except (TritonstackError, OSError, ClientError, BotoCoreError) as fault:
            shutil.rmtree(folder, ignore_errors=True)
            raise LaunchFailedError(_told(fault)) from fault
        shipper = self._ship_log(plan, server, instance)
        deployment = Deployment(
            plan=plan,
            server=server,
            folder=folder,
            shipper=shipper,
            models=_hosted_models(plan, server, s3, model_root),
            capture=_capture(plan, s3),
        )
        try:
            self._await_ready(plan, server)
        except TritonFailedError as fault:
            deployment.stop(grace_s=5)
            raise LaunchFailedError(_ping_failed(plan, fault)) from fault
        return deployment

    def cancel(self) -> None:
        """Let every launch under way fail soon."""
        self._cancelled.set()
        with self._lock:
            starting = list(self._starting)
        for server in starting:
            server.stop(grace_s=0)

    def _fetch(self, plan: DeploymentPlan, s3: Any, model_root: Path) -> None:
        if plan.model_data_url is None or plan.multi_model:
            return
        deadline = time.monotonic() + plan.download_timeout_s

        def checkpoint() -> None:
            if self._cancelled.is_set():
                raise LaunchFailedError("The embedded cloud was stopped.")
            if time.monotonic() > deadline:
                raise LaunchFailedError(
                    f'Model data at "{plan.model_data_url}" was not downloaded and unpacked within '
                    f"ModelDataDownloadTimeoutInSeconds, {plan.download_timeout_s:g} s."
                )

        artifacts.fetch(
            s3, url=plan.model_data_url, to=model_root, container=plan.container, checkpoint=checkpoint
        )

    def _await_ready(self, plan: DeploymentPlan, server: Server) -> None:
        with self._lock:
            self._starting.add(server)
        try:
            if self._cancelled.is_set():  # cancelled before the server was among those to be stopped
                server.stop(grace_s=0)
            server.wait_ready(timeout_s=plan.startup_timeout_s)
        finally:
            with self._lock:
                self._starting.discard(server)

    def _ship_log(self, plan: DeploymentPlan, server: Server, instance: str) -> LogShipper:
        preface = f"The embedded Triton of this machine plays the image {plan.image}."
        log.info("endpoint %s: %s", plan.endpoint, preface)
        shipper = LogShipper(
            client=self._clients.client("logs", plan.place),
            group=log_group(plan.endpoint),
            stream=f"{plan.variant}/{instance}",
            path=server.log_path,
            preface=preface,
        )
        shipper.start()
        return shipper


def _hosted_models(plan: DeploymentPlan, server: Server, s3: Any, folder: Path) -> HostedModels | None:
    if not plan.multi_model or plan.model_data_url is None:
        return None
    shelf = Shelf(s3=s3, url=plan.model_data_url, folder=folder)
    return HostedModels(server=server, shelf=shelf, keep=plan.model_cache)


def _capture(plan: DeploymentPlan, s3: Any) -> Capture | None:
    if plan.capture is None:
        return None
    return Capture(plan=plan.capture, s3=s3, endpoint=plan.endpoint, variant=plan.variant)


def _told(fault: BaseException) -> str:
    return fault.message if isinstance(fault, TritonstackError) else str(fault)


def _ping_failed(plan: DeploymentPlan, fault: TritonFailedError) -> str:
    return (
        f"The primary container for production variant {plan.variant} did not pass the ping health check. "
        f"Please check CloudWatch logs for this endpoint. {fault.message}"
    )
