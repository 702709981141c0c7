"""Servers under SageMaker's container contract, and how to start one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tritonstack.triton import TritonServer, find_installation

if TYPE_CHECKING:
    from tritonstack_local.sagemaker.servers.containers import ContainerServer


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


Server: TypeAlias = "TritonServer | ContainerServer"
StartServer = Callable[[ServerOrder], Server]


def introduction(start_server: StartServer, image: str) -> str:
    """Return the description of an endpoint's server for an image; a starter may have its own."""
    introduce: Callable[[str], str] | None = getattr(start_server, "introduce", None)
    if introduce is not None:
        return introduce(image)
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
