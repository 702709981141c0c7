"""Servers under SageMaker's container contract, and how to start one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from tritonstack.runtime import TritonServer, find_installation
from tritonstack_local.sagemaker.multi_model import MultiModelServer


class Server(MultiModelServer, Protocol):
    """What is needed of a server: a TritonServer, a container, or a stricter one in tests."""

    @property
    def running(self) -> bool:
        """Whether it has not ended."""

    @property
    def pid(self) -> int:
        """The process from which all that it runs descends: what it uses of the machine is measured there."""

    log_path: Path

    def wait_ready(self, *, timeout_s: float) -> None:
        """Return when it is ready, raise when it cannot be."""

    def stop(self, *, grace_s: float = ...) -> None:
        """End it."""


@dataclass(frozen=True)
class ServerOrder:
    """What a server is started with."""

    model_root: Path
    """What lies under /opt/ml/model, or /opt/ml/models where it is to serve many. It may not write there."""
    environment: Mapping[str, str]
    state_dir: Path
    """A folder for its log."""
    image: str
    """The image that the model names."""


StartServer = Callable[[ServerOrder], Server]


@runtime_checkable
class DescribedStarter(Protocol):
    """A way to start servers that says itself what it starts."""

    def introduce(self, image: str) -> str:
        """Return what is started for a model that names this image."""


def introduction(start_server: StartServer | DescribedStarter, image: str) -> str:
    """Return what stands behind an endpoint whose model names an image."""
    starter: object = start_server
    if isinstance(starter, DescribedStarter):
        return starter.introduce(image)
    return f"The embedded Triton of this machine plays the image {image}."


def triton_starter(*, server_home: Path) -> StartServer:
    """Start embedded Tritons, from the installation found when each is wanted; they play every image."""

    def start(order: ServerOrder) -> TritonServer:
        return TritonServer.start(
            installation=find_installation(home=server_home),
            model_root=order.model_root,
            environment=order.environment,
            state_dir=order.state_dir,
        )

    return start
