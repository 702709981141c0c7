"""Drivers that start their own servers: the embedded tritonserver, and containers of any image."""

from __future__ import annotations

import socket
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker

from tests.contract.drivers.servers import (
    DEFAULT_MODEL,
    MULTI_MODEL,
    PING_MODE,
    Ability,
    Lay,
    Model,
    MultiModel,
    RejectedError,
    ServedModel,
    Server,
    Way,
    at_invocations,
)
from tritonstack.base.paths import find_project
from tritonstack.runtime import (
    ServeRejectedError,
    TritonFailedError,
    TritonRequestError,
    TritonServer,
    find_installation,
)
from tritonstack.runtime.connections import ConnectionPool

# What lets dozens of small models start soon and stay small: none is started twice, or holds 16 MiB unused.
QUICK = {
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
}
READY_S = 120.0
SHARED_MEMORY = "2g"
"""A container's; Docker's usual 64 MB do not hold a large body in each step of an ensemble."""


class LocalDriver(ABC):
    """Shared by both drivers: one server per single model, one for all in multi-model mode."""

    ways = tuple(Way)
    release: tuple[int, int] | None

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="contract-")
        self._folders = 0
        self._started: list[Server] = []
        self._serving: dict[Model, Server] = {}
        self._many: MultiModel | None = None

    def lacks(self, ability: Ability) -> str | None:
        del ability

    def start(self, lay: Lay, environment: Mapping[str, str]) -> Server:
        self._folders += 1
        folder = Path(self._scratch.name) / str(self._folders)
        models = folder / "models"
        models.mkdir(parents=True)
        lay(models)
        server = self._start(folder, models, {**QUICK, **environment})
        self._started.append(server)
        return server

    def served_model(self, way: Way, model: Model) -> ServedModel:
        if way.many:
            return self.multi_model().ensure(model.name, model)
        if model not in self._serving:
            self._serving[model] = self.start(model.lay, {DEFAULT_MODEL: model.name})
        return at_invocations(self._serving[model], way, model)

    def multi_model(self) -> MultiModel:
        if self._many is None:
            many = {MULTI_MODEL: "true", PING_MODE: "live"}
            self._many = MultiModel(self.start(lambda _: None, many))
        return self._many

    def close(self) -> None:
        for server in self._started:
            server.stop()
        self._scratch.cleanup()

    @abstractmethod
    def _start(self, folder: Path, models: Path, environment: Mapping[str, str]) -> Server:
        """Start a server and wait until it is ready."""


class EmbeddedDriver(LocalDriver):
    """Start the tritonserver that `make server` installs."""

    def __init__(self) -> None:
        super().__init__()
        self._installation = find_installation(home=find_project(Path(__file__).parent).server_dir)
        self.release = release_from(self._installation.release)

    def _start(self, folder: Path, models: Path, environment: Mapping[str, str]) -> Server:
        try:
            triton = TritonServer.start(
                installation=self._installation,
                model_root=models,
                environment=environment,
                state_dir=folder / "state",
            )
            server = EmbeddedServer(triton, models)
            triton.wait_ready(timeout_s=READY_S)
        except ServeRejectedError as error:
            raise RejectedError(error.message) from error
        except TritonFailedError as failed:
            raise RejectedError(server.log()) from failed
        return server


class EmbeddedServer:
    """An embedded tritonserver."""

    def __init__(self, triton: TritonServer, models: Path) -> None:
        self.models: Path | None = models
        self.seen_at = str(triton.model_root)
        self.request = triton.request
        self.connect = triton.connect
        self._triton = triton

    @property
    def running(self) -> bool:
        return self._triton.running

    def log(self) -> str:
        return self._triton.log_path.read_text(errors="replace")

    def stop(self) -> None:
        self._triton.stop(grace_s=0.2)


class ContainerDriver(LocalDriver):
    """Run an image of this machine's Docker engine as SageMaker does: with the argument `serve`."""

    def __init__(self, image: str, release: tuple[int, int] | None) -> None:
        super().__init__()
        self._engine = docker.from_env()
        self._image = image
        self.release = release or self._release_of_image()

    def close(self) -> None:
        super().close()
        self._engine.close()

    def _release_of_image(self) -> tuple[int, int] | None:
        """Read the release from the variable that NVIDIA's images set."""
        for variable in self._engine.images.get(self._image).attrs["Config"]["Env"] or ():
            name, _, value = variable.partition("=")
            if name == "NVIDIA_TRITON_SERVER_VERSION":
                return release_from(value)
        return None

    def _start(self, folder: Path, models: Path, environment: Mapping[str, str]) -> Server:
        del folder
        seen_at = "/opt/ml/models" if environment.get(MULTI_MODEL) == "true" else "/opt/ml/model"
        container, port = self._run(models, seen_at, environment)
        server = ContainerServer(container, port, models, seen_at)
        deadline = time.monotonic() + READY_S
        while not server.pings():
            if not server.running or time.monotonic() > deadline:
                words = server.log()
                server.stop()
                raise RejectedError(words)
            time.sleep(0.05)
        return server

    def _run(self, models: Path, seen_at: str, environment: Mapping[str, str]) -> tuple[Any, int]:
        """Publish the port on loopback if the engine has a bridge; otherwise use the host's network."""
        bridged = bool(self._engine.networks.list(names=["bridge"]))
        port = _free_port()
        container = self._engine.containers.run(
            self._image,
            "serve",
            detach=True,
            shm_size=SHARED_MEMORY,
            volumes={str(models): {"bind": seen_at, "mode": "ro"}},
            environment={**environment, **({} if bridged else {"SAGEMAKER_BIND_TO_PORT": str(port)})},
            **({"ports": {"8080/tcp": ("127.0.0.1", port)}} if bridged else {"network_mode": "host"}),
        )
        return container, port


class ContainerServer:
    """A container that serves."""

    def __init__(self, container: Any, port: int, models: Path, seen_at: str) -> None:
        self.models: Path | None = models
        self.seen_at = seen_at
        self.connect = connecting_to("127.0.0.1", port)
        self._container = container
        self._pool = ConnectionPool(connect=self.connect)
        self.request = self._pool.request

    @property
    def running(self) -> bool:
        self._container.reload()
        return bool(self._container.status in ("created", "running"))

    def pings(self) -> bool:
        try:
            return self.request("GET", "/ping", timeout_s=5).status == 200
        except TritonRequestError:
            return False

    def log(self) -> str:
        return str(self._container.logs().decode(errors="replace"))

    def stop(self) -> None:
        self._pool.close()
        with suppress(docker.errors.NotFound):
            self._container.remove(force=True)


def release_from(text: str) -> tuple[int, int]:
    """Return `24.09` as numbers."""
    year, month, *_ = text.split(".")
    return int(year), int(month)


def connecting_to(host: str, port: int) -> Callable[[], socket.socket]:
    """Connect to an address; a refused connection counts as a request without an answer."""

    def connect() -> socket.socket:
        try:
            return socket.create_connection((host, port), timeout=10)
        except OSError as error:
            raise TritonRequestError(f"{host}:{port} cannot be reached: {error}") from error

    return connect


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
