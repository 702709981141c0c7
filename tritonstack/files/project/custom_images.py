"""The project's custom images, each built from a folder of containers/ on SageMaker's Triton image.

`builder` is the build image: the serving image and the build dependencies. Endpoints select any other one
with `image:` in the environment's file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base import naming
from tritonstack.base.error_kinds import MissingReferenceError
from tritonstack.base.paths import Project
from tritonstack.facts.images import image_tag, image_uri
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.records.locks import ImageKind, LockedImage

CPU_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's CPU wheels, some gigabytes smaller; GPU builders use the default ones."""
BUILDER = "builder"
SERVING = "serving"
"""The repository of all serving images."""

_TAG_DIGITS = 12
"""Digits of the digest in an image's tag."""


@dataclass(frozen=True)
class OwnImage:
    """One custom image, for CPU or GPU."""

    folder: str
    """The source folder in containers/."""
    kind: ImageKind
    base: str
    """SageMaker's serving image."""
    uri: str
    torch_index: str = ""

    @property
    def tag(self) -> str:
        """Return the tag, which depends on everything that the image is built from."""
        return self.uri.rpartition(":")[2]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of containers/publish.sh."""
        return tuple(filter(None, (self.folder, self.base, self.uri, self.torch_index)))


def builder_image(project: Project, spec: EnvironmentSpec, *, gpu: bool) -> OwnImage:
    """Return the builder of an environment."""
    torch_index = "" if gpu else CPU_TORCH_INDEX
    return _image(project, spec, BUILDER, repository=BUILDER, gpu=gpu, torch_index=torch_index)


def endpoint_images(project: Project, spec: EnvironmentSpec) -> tuple[OwnImage, ...]:
    """Return the custom images of an environment's endpoints, without duplicates."""
    requested = {
        (endpoint.image, bool(variant.instance.gpus))
        for endpoint in spec.endpoints.values()
        if endpoint.image
        for variant in endpoint.variants
    }
    return tuple(endpoint_image(project, spec, folder, gpu=gpu) for folder, gpu in sorted(requested))


def endpoint_image(project: Project, spec: EnvironmentSpec, folder: str, *, gpu: bool) -> OwnImage:
    """Return the serving image of a folder for one machine type."""
    return _image(project, spec, folder, repository=SERVING, gpu=gpu)


def locked_uri(spec: EnvironmentSpec, locked: LockedImage) -> str:
    """Return the URI of an endpoint's image with its digest."""
    return f"{_repository(spec, SERVING)}@{locked.digest}"


def image_folders(project: Project) -> list[str]:
    """Return the folders of containers/ that endpoints can name."""
    folders = project.containers
    return sorted(name for name in folders if name != BUILDER and (folders[name] / "Dockerfile").is_file())


def _image(
    project: Project, spec: EnvironmentSpec, folder: str, *, repository: str, gpu: bool, torch_index: str = ""
) -> OwnImage:
    base = image_uri(region=spec.region, release=spec.triton_release, gpu=gpu)
    digest = _digest(project.container(folder), base, torch_index)
    tag = f"{image_tag(release=spec.triton_release, gpu=gpu)}-{digest[:_TAG_DIGITS]}"
    if folder != repository:
        tag = f"{folder}-{tag}"
    uri = f"{_repository(spec, repository)}:{tag}"
    return OwnImage(folder, "gpu" if gpu else "cpu", base, uri, torch_index)


def _repository(spec: EnvironmentSpec, name: str) -> str:
    registry = f"{spec.account}.dkr.ecr.{spec.region}.amazonaws.com"
    return f"{registry}/{naming.image_repository_name(spec.base, name)}"


def _digest(folder: Path, *arguments: str) -> str:
    """Hash the source folder and the build arguments."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    if not files:
        instead = ", or set `builds: {enabled: false}`" if folder.name == BUILDER else ""
        raise MissingReferenceError(
            f"{folder}: the folder is missing or empty, so the image cannot be built",
            remedy=f"restore containers/{folder.name} from the repository{instead}",
        )
    digest = hashlib.sha256()
    for argument in arguments:
        digest.update(f"{argument}\0".encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
