"""Where custom images of an environment are: in its ECR repository, or in this machine's Docker engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tritonstack.base.error_kinds import ArtifactNotFoundError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import image_repository_name
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.records.locks import LockedImage
from tritonstack.operate.artifacts.image_copying import Registry, copy_image, image_bytes, tagged_digest
from tritonstack.operate.artifacts.transfers import OnBytes
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.local_cloud import has_registry


class ImageStore(Protocol):
    """The custom images of one environment."""

    def digest(self, tag: str) -> str | None:
        """Return the digest of a tag; None if it does not exist."""

    def bytes_from(self, source: ImageStore, digest: str) -> int:
        """Return the bytes to copy for an image of another environment."""

    def copy(
        self,
        source: ImageStore,
        image: LockedImage,
        *,
        counter: Callable[[int], OnBytes],
        sleep: Callable[[float], object],
    ) -> str:
        """Copy an image of another environment; return how its integrity was proved.

        `counter` returns the callback that reports the progress of copying a number of bytes.
        """


@dataclass(frozen=True)
class RegistryImages:
    """Custom images in ECR."""

    environment: str
    registry: Registry

    def digest(self, tag: str) -> str | None:
        """Return the digest of a tag."""
        return tagged_digest(self.registry, tag)

    def bytes_from(self, source: ImageStore, digest: str) -> int:
        """Return the bytes of the layers that the registry lacks."""
        return (
            image_bytes(source.registry, self.registry, digest) if isinstance(source, RegistryImages) else 0
        )

    def copy(
        self,
        source: ImageStore,
        image: LockedImage,
        *,
        counter: Callable[[int], OnBytes],
        sleep: Callable[[float], object],
    ) -> str:
        """Copy an image from another registry."""
        if not isinstance(source, RegistryImages):
            raise _other_kind(self.environment)
        total = image_bytes(source.registry, self.registry, image.digest)
        copy_image(
            source.registry,
            self.registry,
            digest=image.digest,
            tag=image.tag,
            on_bytes=counter(total),
            sleep=sleep,
        )
        return f"{total / 1e6:.1f} MB, verified by digest"


@dataclass(frozen=True)
class EngineImages:
    """Custom images in the Docker engine of this machine, which the local cloud runs them from."""

    environment: str
    repository: str
    """The repository part of their tags."""

    def digest(self, tag: str) -> str | None:
        """Return the image ID of a tag."""
        # Imported here: only environments with custom images need Docker's library.
        from tritonstack.operate.artifacts.local_images import held_digest  # noqa: PLC0415

        return held_digest(f"{self.repository}:{tag}")

    def bytes_from(self, source: ImageStore, digest: str) -> int:
        """Return 0: both environments use one engine."""
        return 0

    def copy(
        self,
        source: ImageStore,
        image: LockedImage,
        *,
        counter: Callable[[int], OnBytes],
        sleep: Callable[[float], object],
    ) -> str:
        """Tag an image of another environment."""
        if not isinstance(source, EngineImages):
            raise _other_kind(self.environment)
        from tritonstack.operate.artifacts.local_images import tag_image  # noqa: PLC0415

        tag_image(image.digest, f"{self.repository}:{image.tag}")
        return "the same image in the local engine"


def _other_kind(environment: str) -> TritonstackError:
    return ArtifactNotFoundError(
        "images of the local cloud are in the local Docker engine, without a registry",
        remedy=f"build it for {environment}: `tritonstack build {environment}`",
    )


def image_store(spec: EnvironmentSpec, cloud: Cloud) -> ImageStore:
    """Return the store of an environment's custom images."""
    registry = Registry(cloud, image_repository_name(spec.base, "serving"))
    if has_registry(spec):
        return RegistryImages(spec.name, registry)
    return EngineImages(spec.name, registry.uri)
