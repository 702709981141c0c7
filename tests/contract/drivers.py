"""What the contract cases are asked of: the embedded server, containers of an image, or an endpoint."""

from __future__ import annotations

import json
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import boto3
import docker
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.contract import models
from tritonstack.base.paths import find_project
from tritonstack.triton import (
    ServeRejectedError,
    TritonFailedError,
    TritonRequestError,
    TritonResponse,
    TritonServer,
    find_installation,
)
from tritonstack.triton.connections import NO_HEADERS, ConnectionPool

DEFAULT_MODEL = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"
MULTI_MODEL = "SAGEMAKER_MULTI_MODEL"
PING_MODE = "SAGEMAKER_TRITON_PING_MODE"
TARGET_HEADER = "X-Amzn-SageMaker-Target-Model"
MANY_MODELS = {MULTI_MODEL: "true", PING_MODE: "live"}

# What lets dozens of small models start soon and stay small: none is started twice, or holds 16 MiB unused.
QUICK = {
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
}
READY_S = 120.0
SHARED_MEMORY = "2g"
"""A container's; Docker's usual 64 MB do not hold a large body in each step of an ensemble."""

Lay = Callable[[Path], object]
"""Writes models into a folder."""
Send = Callable[[bytes, Mapping[str, str]], TritonResponse]
Release = tuple[int, int]


class Way(Enum):
    """How a model is served."""

    SINGLE = "single"
    ENSEMBLE = "ensemble"
    MULTI_MODEL = "multi-model"
    ENSEMBLE_IN_MULTI_MODEL = "ensemble in multi-model"

    @property
    def many(self) -> bool:
        """True if the server is in multi-model mode."""
        return self in (Way.MULTI_MODEL, Way.ENSEMBLE_IN_MULTI_MODEL)


MODES = {
    "single": (Way.SINGLE,),
    "ensemble": (Way.ENSEMBLE,),
    "multi-model": (Way.MULTI_MODEL, Way.ENSEMBLE_IN_MULTI_MODEL),
}
"""How an endpoint can serve."""


class RejectedError(Exception):
    """A server ended instead of becoming ready; the message is its output."""


@dataclass(frozen=True)
class Model:
    """A model of the cases, and its path in each mode."""

    name: str
    target: str
    lay: Lay


DOUBLE = Model(models.DOUBLE, models.DOUBLE_TARGET, models.single)
CHAIN = Model(models.CHAIN, models.CHAIN_TARGET, models.ensemble)
ECHO = Model("echo", "contract/echo.tar.gz", models.echo)
DECOUPLED = Model("decoupled", "contract/decoupled.tar.gz", models.decoupled)
STANDARD = dict(zip(Way, (DOUBLE, CHAIN, DOUBLE, CHAIN), strict=True))
"""What most cases are asked of."""


@dataclass(frozen=True)
class Server:
    """A server with a reachable port."""

    models: Path
    """The folder that lies under /opt/ml/model, or /opt/ml/models."""
    seen_at: str
    """The same folder as the server sees it."""
    connect: Callable[[], socket.socket]
    """Opens a connection for requests that no library would send."""
    request: Callable[..., TritonResponse]
    """Returns the answer with any status; raises TritonRequestError without one."""
    running: Callable[[], bool]
    log: Callable[[], str]
    stop: Callable[[], object]


@dataclass(frozen=True)
class ServedModel:
    """A served model that cases invoke."""

    way: Way
    model: Model
    send: Send

    @property
    def factor(self) -> float:
        """The factor by which the model multiplies."""
        return 6 if self.model is CHAIN else 2

    def ask(
        self, body: bytes, content_type: str | None = "application/json", **headers: str
    ) -> TritonResponse:
        """Invoke the model once."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.send(body, {**({} if content_type is None else {"Content-Type": content_type}), **fields})


class MultiModel:
    """A multi-model server, addressed as SageMaker does."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._loaded: set[str] = set()

    def lay(self, name: str, lay: Lay) -> None:
        """Write an archive's content where SageMaker unpacks it."""
        folder = self.server.models / name / "model"
        folder.mkdir(parents=True)
        lay(folder)

    def load(
        self, name: str, target: str | None, *, url: str | None = None, timeout_s: float = 60.0
    ) -> TritonResponse:
        """Request a model's load; without `target`, omit the target header."""
        order = {"model_name": name, "url": url or f"{self.server.seen_at}/{name}/model"}
        return self.server.request(
            "POST", "/models", body=json.dumps(order).encode(), headers=_to(target), timeout_s=timeout_s
        )

    def ensure(self, model: Model) -> ServedModel:
        """Load a model once and return it."""
        if model.name not in self._loaded:
            self.lay(model.name, model.lay)
            answer = self.load(model.name, model.target)
            assert answer.status == 200, answer.body
            self._loaded.add(model.name)
        way = Way.ENSEMBLE_IN_MULTI_MODEL if model is CHAIN else Way.MULTI_MODEL
        return ServedModel(
            way, model, lambda body, headers: self.invoke(model.name, model.target, body, headers)
        )

    def invoke(
        self, name: str, target: str | None, body: bytes, headers: Mapping[str, str] = NO_HEADERS
    ) -> TritonResponse:
        return self.server.request(
            "POST", f"/models/{name}/invoke", body=body, headers={**_to(target), **headers}
        )

    def unload(self, name: str, target: str | None) -> TritonResponse:
        return self.server.request("DELETE", f"/models/{name}", headers=_to(target))

    def described(self, name: str) -> TritonResponse:
        """Request the description of one model."""
        return self.server.request("GET", f"/models/{name}")

    def listed(self) -> list[dict[str, Any]]:
        """Request the list of models."""
        answer = self.server.request("GET", "/models")
        assert answer.status == 200, answer.body
        entries: list[dict[str, Any]] = json.loads(answer.body)["models"]
        return entries

    def ping(self) -> int:
        """Return the status of the health check."""
        status: int = self.server.request("GET", "/ping").status
        return status


class Driver(ABC):
    """Starts servers: one per single model, and one for all in multi-model mode."""

    ways = tuple(Way)
    release: Release | None
    """The Triton release of its servers, None if it is unknown."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="contract-")
        self._servers: list[Server] = []
        self._serving: dict[Model, Server] = {}
        self._many: MultiModel | None = None

    def start(self, lay: Lay, environment: Mapping[str, str]) -> Server:
        """Start a server on its own models and wait until it is ready; raise RejectedError if it ends."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch.name))
        (folder / "models").mkdir()
        lay(folder / "models")
        server = self._start(folder, {**QUICK, **environment})
        self._servers.append(server)
        return server

    def single_model(self, model: Model) -> Server:
        """Return the server of one model that all cases share."""
        if model not in self._serving:
            self._serving[model] = self.start(model.lay, {DEFAULT_MODEL: model.name})
        return self._serving[model]

    def multi_model(self) -> MultiModel:
        """Return the multi-model server that all cases share."""
        if self._many is None:
            self._many = MultiModel(self.start(lambda _: None, MANY_MODELS))
        return self._many

    def served_model(self, way: Way, model: Model) -> ServedModel:
        if way.many:
            return self.multi_model().ensure(model)
        server = self.single_model(model)
        return ServedModel(
            way,
            model,
            lambda body, headers: server.request("POST", "/invocations", body=body, headers=headers),
        )

    def close(self) -> None:
        for server in self._servers:
            server.stop()
        self._scratch.cleanup()

    @abstractmethod
    def _start(self, folder: Path, environment: Mapping[str, str]) -> Server: ...


class EmbeddedDriver(Driver):
    """Start the tritonserver that `make server` installs."""

    def __init__(self) -> None:
        super().__init__()
        self._installation = find_installation(home=find_project(Path(__file__).parent).server_dir)
        self.release = release_from(self._installation.release)

    def _start(self, folder: Path, environment: Mapping[str, str]) -> Server:
        models = folder / "models"
        try:
            triton = TritonServer.start(
                installation=self._installation,
                model_root=models,
                environment=environment,
                state_dir=folder / "state",
            )
            triton.wait_ready(timeout_s=READY_S)
        except ServeRejectedError as error:
            raise RejectedError(error.message) from error
        except TritonFailedError as failed:
            raise RejectedError(triton.log_path.read_text(errors="replace")) from failed
        return Server(
            models,
            str(triton.model_root),
            triton.connect,
            triton.request,
            running=lambda: triton.running,
            log=lambda: triton.log_path.read_text(errors="replace"),
            stop=lambda: triton.stop(grace_s=0.2),
        )


class ContainerDriver(Driver):
    """Run an image of this machine's Docker engine as SageMaker does: with the argument `serve`."""

    def __init__(self, image: str, release: Release | None) -> None:
        super().__init__()
        self._engine = docker.from_env()
        self._image = image
        self.release = release or self._release_of_image()

    def close(self) -> None:
        super().close()
        self._engine.close()

    def _release_of_image(self) -> Release | None:
        """Read the release from the variable that NVIDIA's images set."""
        for variable in self._engine.images.get(self._image).attrs["Config"]["Env"] or ():
            name, _, value = variable.partition("=")
            if name == "NVIDIA_TRITON_SERVER_VERSION":
                return release_from(value)
        return None

    def _start(self, folder: Path, environment: Mapping[str, str]) -> Server:
        """Publish the port on loopback if the engine has a bridge; otherwise use the host's network."""
        models = folder / "models"
        seen_at = "/opt/ml/models" if environment.get(MULTI_MODEL) == "true" else "/opt/ml/model"
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
        server = _container_server(container, port, models, seen_at)
        deadline = time.monotonic() + READY_S
        while not _pings(server):
            if not server.running() or time.monotonic() > deadline:
                output = server.log()
                server.stop()
                raise RejectedError(output)
            time.sleep(0.05)
        return server


def _container_server(container: Any, port: int, models: Path, seen_at: str) -> Server:
    def connect() -> socket.socket:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except OSError as error:
            raise TritonRequestError(f"port {port} cannot be reached: {error}") from error

    def running() -> bool:
        container.reload()
        return container.status in ("created", "running")

    def stop() -> None:
        pool.close()
        with suppress(docker.errors.NotFound):
            container.remove(force=True)

    pool = ConnectionPool(connect=connect)
    return Server(
        models,
        seen_at,
        connect,
        pool.request,
        running=running,
        log=lambda: str(container.logs().decode(errors="replace")),
        stop=stop,
    )


def _pings(server: Server) -> bool:
    try:
        return bool(server.request("GET", "/ping", timeout_s=5).status == 200)
    except TritonRequestError:
        return False


class EndpointDriver(Driver):
    """Invoke a SageMaker endpoint through InvokeEndpoint; status codes are those it passes on."""

    def __init__(self, name: str, *, url: str | None, mode: str, release: Release | None) -> None:
        super().__init__()
        self.ways = MODES[mode]
        self.release = release
        self._name = name
        config = Config(retries={"total_max_attempts": 1}, read_timeout=70)
        self._runtime: Any = boto3.client("sagemaker-runtime", endpoint_url=url, config=config)

    def served_model(self, way: Way, model: Model) -> ServedModel:
        if model is not STANDARD[way]:
            pytest.skip(f"the endpoint at --endpoint does not serve the model {model.name}")
        target = {"TargetModel": model.target} if way.many else {}
        return ServedModel(way, model, lambda body, headers: self._invoke(body, headers, target))

    def close(self) -> None:
        super().close()
        self._runtime.close()

    def _start(self, folder: Path, environment: Mapping[str, str]) -> Server:
        raise NotImplementedError("cases that need a server are skipped")

    def _invoke(self, body: bytes, headers: Mapping[str, str], target: Mapping[str, str]) -> TritonResponse:
        if set(headers) - {"Content-Type"}:
            pytest.skip("InvokeEndpoint carries no headers of the caller's own")
        kind = {"ContentType": headers["Content-Type"]} if "Content-Type" in headers else {}
        try:
            answer = self._runtime.invoke_endpoint(EndpointName=self._name, Body=body, **kind, **target)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ModelError":
                raise
            return TritonResponse(
                status=error.response["OriginalStatusCode"],
                headers={},
                body=error.response["OriginalMessage"].encode(),
            )
        return TritonResponse(
            status=200, headers={"content-type": answer["ContentType"]}, body=answer["Body"].read()
        )


def release_from(text: str) -> Release:
    """Return `24.09` as numbers."""
    year, month, *_ = text.split(".")
    return int(year), int(month)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _to(target: str | None) -> dict[str, str]:
    return {} if target is None else {TARGET_HEADER: target}
