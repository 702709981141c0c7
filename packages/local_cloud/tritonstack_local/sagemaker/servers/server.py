"""Servers under SageMaker's container contract, and how to start one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from tritonstack.runtime import TritonResponse, TritonServer, find_installation
from tritonstack.runtime.async_streams import ResponseStream


class MultiModelServer(Protocol):
    """The part of a server's interface that multi-model endpoints use."""

    model_root: Path
    """The models' folder as mounted in the server."""

    def request(
        self, method: str, path: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> TritonResponse:
        """Send one request."""

    def memory_held(self) -> int:
        """Return the memory of its processes in bytes, including shared memory."""


class Server(MultiModelServer, Protocol):
    """The interface of a server: a TritonServer, a container, or a fake in tests."""

    @property
    def running(self) -> bool:
        """Whether it is running."""

    @property
    def pid(self) -> int:
        """Its root process, for measurements."""

    log_path: Path

    async def exchange(
        self, method: str, path: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> TritonResponse:
        """Send one request from the data plane's event loop."""

    async def stream(
        self, method: str, path: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> ResponseStream:
        """Send one request, and return its response while the body still arrives."""

    def wait_ready(self, *, timeout_s: float) -> None:
        """Wait until it is ready, or raise."""

    def stop(self, *, grace_s: float = ...) -> None:
        """End it."""


@dataclass(frozen=True)
class ServerOrder:
    """The parameters of a server start."""

    model_root: Path
    """The folder mounted read-only at /opt/ml/model (multi-model: /opt/ml/models)."""
    environment: Mapping[str, str]
    state_dir: Path
    """The folder of its log."""
    image: str
    """The model's image."""


StartServer = Callable[[ServerOrder], Server]


@runtime_checkable
class DescribedStarter(Protocol):
    """A server starter that describes what it starts."""

    def introduce(self, image: str) -> str:
        """Return the description of a server for this image."""


def introduction(start_server: StartServer | DescribedStarter, image: str) -> str:
    """Return the description of an endpoint's server for an image."""
    starter: object = start_server
    if isinstance(starter, DescribedStarter):
        return starter.introduce(image)
    return f"The embedded Triton of this machine serves the image {image}."


def triton_starter(*, server_home: Path) -> StartServer:
    """Return a starter of embedded Triton servers for all images; the installation is looked up per start."""

    def start(order: ServerOrder) -> TritonServer:
        return TritonServer.start(
            installation=find_installation(home=server_home),
            model_root=order.model_root,
            environment=order.environment,
            state_dir=order.state_dir,
        )

    return start
