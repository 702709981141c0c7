"""Run a model's own image as a Docker container, as SageMaker does.

A container has its model read-only at /opt/ml/model (multi-model: /opt/ml/models) and the environment of
CreateModel; it runs with the argument `serve` and is called on SageMaker's port. If the engine can create a
network without internet access, the cloud's containers share one and use port 8080. Otherwise a container
uses the machine's network with a free port (SAGEMAKER_BIND_TO_PORT), and a warning is logged.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
from docker.errors import NotFound
from docker.types import DeviceRequest, Mount

from tritonstack.triton import TritonFailedError, TritonUnreachableError
from tritonstack.triton.docker_engine import DOCKER_ERRORS, held_image
from tritonstack.triton.readiness import SageMakerServer
from tritonstack.triton.sandbox import require_consent
from tritonstack.triton.serve import BIND_TO_PORT, DEFAULT_PORT, MULTI_MODEL
from tritonstack.triton.server import LOG_NAME, MULTI_MODEL_ROOT, SINGLE_MODEL_ROOT
from tritonstack_local.container_group import ContainerGroup, Network
from tritonstack_local.sagemaker.servers.server import Server, ServerOrder, StartServer, introduction

SHARED_MEMORY = "64m"
"""Docker's default; SageMaker hosting has no setting for it."""
_ACCEPTS_PORTS = "com.amazonaws.sagemaker.capabilities.accept-bind-to-port"
_CONNECT_S = 5.0
_LOG_END_S = 10.0

log = logging.getLogger(__name__)


class ContainerRejectedError(TritonFailedError):
    """The engine cannot run the image as required."""


class ContainerServer(SageMakerServer):
    """A container and its removal."""

    def __init__(
        self,
        *,
        container: Any,
        connect: Callable[[], socket.socket],
        log_path: Path,
        model_root: Path,
    ) -> None:
        super().__init__(
            name="the container",
            connect=connect,
            exit_status=lambda: self._exit_status,
            log_path=log_path,
        )
        self.model_root = model_root
        """The models' folder as mounted in the container."""
        self._container = container
        self._exit_status: int | None = None
        self._stopping = threading.Lock()
        self._removed = False
        self._follower = threading.Thread(target=self._follow, name=f"container {self.name}", daemon=True)
        self._follower.start()

    @property
    def name(self) -> str:
        """The container's name in the engine."""
        return str(self._container.name)

    @property
    def pid(self) -> int:
        """The container's first process, by its PID on this machine."""
        return int(self._container.attrs["State"]["Pid"])

    @property
    def running(self) -> bool:
        """Whether the container is running, ready or not."""
        return self._exit_status is None

    def memory_held(self) -> int:
        """Its memory use as measured by the engine, without page cache."""
        memory = self._container.stats(stream=False, one_shot=True)["memory_stats"]  # empty once it has ended
        return int(memory.get("usage", 0)) - int(memory.get("stats", {}).get("inactive_file", 0))

    def stop(self, *, grace_s: float = 30.0) -> None:
        """Stop it as SageMaker does, by SIGTERM, then SIGKILL after the grace period, and remove it."""
        with self._stopping:
            if self._removed:
                return
            self.close_connections()
            try:
                if self.running and grace_s >= 1:
                    self._container.stop(timeout=int(grace_s))
                elif self.running:
                    self._container.kill()
                self._follower.join(_LOG_END_S)
            except DOCKER_ERRORS as error:  # it or the engine has just ended
                log.debug("ending container %s: %s", self.name, error)
            self._remove()
            self._removed = True

    def _remove(self) -> None:
        try:
            self._container.remove(force=True, v=True)
        except NotFound:
            return
        except DOCKER_ERRORS as error:
            log.warning("cannot remove container %s: %s", self.name, error)

    def _follow(self) -> None:
        """Copy the container's output, and record how it ends."""
        try:
            with self.log_path.open("ab", buffering=0) as file:
                for chunk in self._container.logs(stream=True, follow=True):
                    file.write(chunk)
            self._exit_status = int(self._container.wait()["StatusCode"])
        except DOCKER_ERRORS as error:
            log.warning("lost connection to container %s: %s", self.name, error)
            self._exit_status = -1


class ContainerStarter:
    """Starts images in the engine as containers, and all others by `otherwise`."""

    def __init__(self, *, container_group: ContainerGroup, otherwise: StartServer) -> None:
        self._container_group = container_group
        self._otherwise = otherwise

    def introduce(self, image: str) -> str:
        """Return which of the two applies."""
        if self._held(image) is None:
            return f"{introduction(self._otherwise, image)} This machine's Docker engine does not hold it."
        return f"Running image {image} in the Docker engine of this machine."

    def __call__(self, order: ServerOrder) -> Server:
        """Start a server."""
        image = self._held(order.image)
        if image is None:
            return self._otherwise(order)
        try:
            return _start(self._container_group.engine, self._container_group, order, image)
        except DOCKER_ERRORS as error:
            raise ContainerRejectedError(f"Docker does not run {order.image}: {error}") from error

    def _held(self, image: str) -> str | None:
        try:
            return held_image(self._container_group.engine, image)
        except DOCKER_ERRORS as error:
            raise ContainerRejectedError(f"cannot ask Docker for the image {image}: {error}") from error


def _start(
    engine: docker.DockerClient, container_group: ContainerGroup, order: ServerOrder, image: str
) -> ContainerServer:
    order.state_dir.mkdir(parents=True, exist_ok=True)
    model_root = MULTI_MODEL_ROOT if order.environment.get(MULTI_MODEL) == "true" else SINGLE_MODEL_ROOT
    network = container_group.network()
    port = _port(engine, order, network, image)
    container = engine.containers.create(
        image,
        ["serve"],
        environment={**order.environment, **({BIND_TO_PORT: str(port)} if network.shared else {})},
        mounts=[Mount(str(model_root), str(order.model_root.resolve()), type="bind", read_only=True)],
        network=network.name,
        labels=container_group.labels,
        shm_size=SHARED_MEMORY,
        device_requests=_gpus(engine),
        security_opt=["no-new-privileges"],
    )
    try:
        container.start()
        container.reload()
        address = (network.address_of(container), port)
    except BaseException:
        container.remove(force=True, v=True)
        raise
    return ContainerServer(
        container=container,
        connect=lambda: _connected(address),
        log_path=order.state_dir / LOG_NAME,
        model_root=model_root,
    )


def _port(engine: docker.DockerClient, order: ServerOrder, network: Network, image: str) -> int:
    if not network.shared:
        return int(order.environment.get(BIND_TO_PORT) or DEFAULT_PORT)
    require_consent(
        "this machine's Docker engine makes no network of its own, so the container would listen on every "
        "network interface of this machine, without authentication",
        remedy="start an engine that can make networks (with the kernel's bridges)",
    )
    labels = engine.images.get(image).labels
    if labels.get(_ACCEPTS_PORTS) != "true":
        raise ContainerRejectedError(
            f"{order.image} lacks the label {_ACCEPTS_PORTS}=true, and this machine's engine gives "
            "containers no network in which each could have port 8080",
            remedy="start an engine that can make networks (with the kernel's bridges)",
        )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _connected(address: tuple[str, int]) -> socket.socket:
    try:
        connection = socket.create_connection(address, timeout=_CONNECT_S)
    except OSError as error:
        raise TritonUnreachableError(f"the container cannot be reached: {error}") from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _gpus(engine: docker.DockerClient) -> list[DeviceRequest]:
    """Return device requests for all GPUs, if NVIDIA's runtime is available."""
    if "nvidia" not in engine.info().get("Runtimes", {}):
        return []
    return [DeviceRequest(count=-1, capabilities=[["gpu"]])]
