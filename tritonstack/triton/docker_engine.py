"""Find this machine's Docker engine, which is optional."""

from __future__ import annotations

import docker
from docker.errors import DockerException, ImageNotFound

from tritonstack.base.error_kinds import MissingProgramError
from tritonstack.base.errors import TritonstackError

_PATIENCE_S = 5
_WORK_S = 120
"""Timeout of one call: creating a container can wait for a busy disk."""
DOCKER_ERRORS = (DockerException, OSError)
"""Exceptions of calls to the engine: its own errors, and connection failures."""


class NoEngineError(TritonstackError):
    """No Docker engine is running."""

    code = MissingProgramError.code


def docker_engine() -> docker.DockerClient:
    """Connect to the engine at DOCKER_HOST or the default socket, or raise NoEngineError."""
    try:
        docker.from_env(timeout=_PATIENCE_S).ping()
        return docker.from_env(timeout=_WORK_S)
    except DOCKER_ERRORS as error:
        raise NoEngineError(
            f"no Docker engine is running on this machine ({error})",
            remedy="start one, for example with `sudo systemctl start docker`, and set DOCKER_HOST if its "
            "socket is not the default",
        ) from error


def held_image(engine: docker.DockerClient, image: str) -> str | None:
    """Return the name by which the engine can run an image without a registry; None if it lacks the image.

    An image that was built locally and never pushed has no registry digest, so its id is returned.
    """
    repository, _, digest = image.partition("@")
    for name in filter(None, (image, digest)):
        try:
            local_image = engine.images.get(name)
        except ImageNotFound:
            continue
        if name == image or any(tag.startswith(f"{repository}:") for tag in local_image.tags):
            return name
    return None


def holds_image(engine: docker.DockerClient, image: str) -> bool:
    """Return whether the engine has an image, so that it runs without a registry."""
    return held_image(engine, image) is not None
