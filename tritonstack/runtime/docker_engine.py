"""Finds this machine's Docker engine, if it has one: containers are used where they can, never needed."""

from __future__ import annotations

import docker
from docker.errors import DockerException, ImageNotFound

from tritonstack.base.errors import TritonstackError

_PATIENCE_S = 5
_WORK_S = 120
"""How long one call may take once the engine has answered: making a container can wait for a busy disk."""
DOCKER_FAULTS = (DockerException, OSError)
"""What calls of the engine raise: its own refusals, and a connection that breaks."""


class NoEngineError(TritonstackError):
    """No Docker engine answers."""

    code = "TS607"


def docker_engine() -> docker.DockerClient:
    """Connect to the engine that DOCKER_HOST, or the usual socket, leads to, or raise NoEngineError."""
    try:
        docker.from_env(timeout=_PATIENCE_S).ping()
        return docker.from_env(timeout=_WORK_S)
    except DOCKER_FAULTS as fault:
        raise NoEngineError(
            f"no Docker engine answers on this machine ({fault})",
            remedy="start one (for root, `tools/docker_engine.sh start` does), and let DOCKER_HOST lead "
            "to it where its socket is not the usual one",
        ) from fault


def held_image(engine: docker.DockerClient, image: str) -> str | None:
    """Say by what name the engine can run an image without a registry; None where it does not hold it.

    An image that was built here and never pushed has no digest of a registry's: its id stands for it.
    """
    repository, _, digest = image.partition("@")
    for name in filter(None, (image, digest)):
        try:
            found = engine.images.get(name)
        except ImageNotFound:
            continue
        if name == image or any(tag.startswith(f"{repository}:") for tag in found.tags):
            return name
    return None


def holds_image(engine: docker.DockerClient, image: str) -> bool:
    """Tell whether the engine holds an image, so that it can be run without a registry."""
    return held_image(engine, image) is not None
