"""Launch an instance: download and unpack its archive, and start its server."""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.runtime import TritonFailedError
from tritonstack_local.cloudwatch.metrics import Datum, Metrics
from tritonstack_local.sagemaker.hosting.capture import Capture
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance, RunningContainer
from tritonstack_local.sagemaker.multi_model import DownloadFolders, HostedModels
from tritonstack_local.sagemaker.records import DeploymentPlan
from tritonstack_local.sagemaker.servers import artifacts
from tritonstack_local.sagemaker.servers.limits import limits_of, volume_bytes
from tritonstack_local.sagemaker.servers.logs import LogShipper, log_group
from tritonstack_local.sagemaker.servers.server import Server, ServerOrder, StartServer, introduction
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ReplyError

MODEL_FOLDER = "model"

log = logging.getLogger(__name__)


class LaunchFailedError(ReplyError):
    """An instance failed to launch; the message is the endpoint's FailureReason."""


class Launcher:
    """Launches instances, each in its own folder below the endpoint's."""

    def __init__(
        self,
        *,
        folder: Path,
        clients: Clients,
        metrics: Metrics,
        start_server: StartServer,
        loaded_models: int | None,
    ) -> None:
        self._folder = folder
        self._clients = clients
        self._metrics = metrics
        self._start_server = start_server
        self._loaded_models = loaded_models
        self._cancelled = threading.Event()
        self._unwanted: set[tuple[Scope, str]] = set()

    def endpoint_folder(self, scope: Scope, endpoint: str) -> Path:
        """Return the folder of an endpoint's instances."""
        return self._folder / scope.account / scope.region / endpoint

    def launch(
        self, plan: DeploymentPlan, *, notes: list[str], begun: Callable[[EndpointInstance], None]
    ) -> EndpointInstance:
        """Download, unpack, start, and wait until the server is ready; raise LaunchFailedError on failure.

        `notes` are the first lines of the instance's log. `begun` gets the instance before its server starts,
        so that another thread can stop it.
        """
        name = f"i-{secrets.token_hex(8)}"
        folder = self.endpoint_folder(plan.scope, plan.endpoint) / name
        (folder / MODEL_FOLDER).mkdir(parents=True)
        artifacts.open_folders(folder / MODEL_FOLDER)
        try:
            self._fetch(plan, folder / MODEL_FOLDER)
        except (TritonstackError, OSError, ClientError, BotoCoreError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise LaunchFailedError(_message(error)) from error
        instance = EndpointInstance(
            plan=plan,
            id_=name,
            folder=folder,
            start=lambda number: self._start(plan, folder, number),
            log=self._ship_log(plan, name, notes),
        )
        begun(instance)
        try:
            instance.launch()
        except TritonFailedError as error:
            instance.stop(grace_s=5)
            raise LaunchFailedError(_ping_failed(plan, error)) from error
        except (TritonstackError, OSError) as error:
            instance.stop(grace_s=5)
            shutil.rmtree(folder, ignore_errors=True)
            raise LaunchFailedError(_message(error)) from error
        return instance

    def capture(self, plan: DeploymentPlan) -> Capture | None:
        """Start data capture if the variant's plan enables it."""
        if plan.capture is None:
            return None
        s3 = self._clients.client("s3", plan.scope)
        return Capture(settings=plan.capture, s3=s3, endpoint=plan.endpoint, variant=plan.variant)

    def cancel(self) -> None:
        """Cancel all downloads."""
        self._cancelled.set()

    @contextmanager
    def launches_canceled(self, scope: Scope, endpoint: str) -> Iterator[None]:
        """Cancel all launches of an endpoint that is being deleted."""
        self._unwanted.add((scope, endpoint))
        try:
            yield
        finally:
            self._unwanted.discard((scope, endpoint))

    def _check_wanted(self, plan: DeploymentPlan) -> None:
        if self._cancelled.is_set():
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

        def measure(name: str, value: float, unit: str) -> None:
            self._metrics.put(plan.scope, [Datum("AWS/SageMaker", name, plan.dimensions, value, unit)])

        s3 = self._clients.client("s3", plan.scope)
        return HostedModels(
            server=server,
            folders=DownloadFolders(s3=s3, url=plan.model_data_url, folder=folder),
            limits=limits_of(plan.instance_type, volume_gb=plan.volume_gb, loaded_models=self._loaded_models),
            measure=measure,
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
            self._clients.client("s3", plan.scope),
            url=plan.model_data_url,
            to=model_root,
            container=plan.container,
            checkpoint=checkpoint,
            space=artifacts.Allowance(volume_bytes(plan.instance_type, plan.volume_gb)),
        )

    def _ship_log(self, plan: DeploymentPlan, instance: str, notes: list[str]) -> LogShipper:
        preface = [introduction(self._start_server, plan.image), *notes]
        for line in preface:
            log.info("endpoint %s, %s: %s", plan.endpoint, plan.variant, line)
        return LogShipper(
            client=self._clients.client("logs", plan.scope),
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
