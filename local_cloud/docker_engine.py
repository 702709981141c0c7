"""Finds this machine's Docker engine, if it has one: containers are used where they can, never needed."""

from __future__ import annotations

from functools import cache

import docker
from docker.errors import DockerException

from catalog.errors import TritonstackError

_PATIENCE_S = 5


class NoEngineError(TritonstackError):
    """No Docker engine answers."""


@cache
def docker_engine() -> docker.DockerClient:
    """Connect to the engine that DOCKER_HOST, or the usual socket, leads to, or raise NoEngineError."""
    try:
        engine = docker.from_env(timeout=_PATIENCE_S)
        engine.ping()
    except DockerException as fault:
        raise NoEngineError(
            f"no Docker engine answers on this machine ({fault})",
            remedy="start one, and let DOCKER_HOST lead to it where it listens on another socket",
        ) from fault
    return engine


def holds_image(engine: docker.DockerClient, image: str) -> bool:
    """Tell whether the engine holds an image, so that it can be run without a registry."""
    try:
        engine.images.get(image)
    except docker.errors.ImageNotFound:
        return False
    return True
