"""Find and tag custom images in the Docker engine of this machine, which the local cloud runs them from."""

from __future__ import annotations

from docker.errors import ImageNotFound

from tritonstack.operate.jobs.codebuild import UnusableImageError
from tritonstack.triton.docker_engine import docker_engine, held_image


def held_digest(uri: str) -> str | None:
    """Return the ID of an image in the local engine; None if it is missing."""
    engine = docker_engine()
    return str(engine.images.get(uri).id) if held_image(engine, uri) else None


def tag_image(digest: str, uri: str) -> None:
    """Add a tag to an image in the local engine."""
    engine, (repository, _, tag) = docker_engine(), uri.rpartition(":")
    try:
        engine.images.get(digest).tag(repository, tag=tag)
    except ImageNotFound:
        raise UnusableImageError(
            f"image {digest[:19]} is not in the local Docker engine; cannot tag it {tag}",
            remedy="promote on the machine that built it, or build it here for both environments",
        ) from None
