"""The images of the project's own, each made from a folder of containers/ on SageMaker's Triton image.

`builder` is what models are built in: the very image that serves, and what builds need beside it. Any other
may be what an endpoint runs, by `image:` in the environment's file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base import naming
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.records.locks import ImageKind, LockedImage
from tritonstack.reference.images import image_tag, image_uri
from tritonstack.spec.environments.environment import EnvironmentSpec

CPU_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own wheels without CUDA, some gigabytes smaller; a GPU's builder takes the usual ones."""
BUILDER = "builder"
_SERVING = "serving"
"""The repository of images that endpoints run, whichever folder they are made from."""


@dataclass(frozen=True)
class OwnImage:
    """One image, with or without what a GPU needs."""

    folder: str
    """What it is made from, a folder of containers/."""
    kind: ImageKind
    base: str
    """What SageMaker serves with."""
    uri: str
    torch_index: str = ""

    @property
    def tag(self) -> str:
        """It changes with all that the image is made from."""
        return self.uri.rpartition(":")[2]

    @property
    def arguments(self) -> tuple[str, ...]:
        """What containers/publish.sh is told."""
        return tuple(filter(None, (self.folder, self.base, self.uri, self.torch_index)))


def builder_image(project: Project, spec: EnvironmentSpec, *, gpu: bool) -> OwnImage:
    """The builder of an environment."""
    torch_index = "" if gpu else CPU_TORCH_INDEX
    return _image(project, spec, BUILDER, repository=BUILDER, gpu=gpu, torch_index=torch_index)


def endpoint_images(project: Project, spec: EnvironmentSpec) -> tuple[OwnImage, ...]:
    """What an environment's endpoints run instead of SageMaker's own, each once."""
    wanted = {
        (endpoint.image, bool(variant.instance.gpus))
        for endpoint in spec.endpoints.values()
        if endpoint.image
        for variant in endpoint.variants
    }
    return tuple(endpoint_image(project, spec, folder, gpu=gpu) for folder, gpu in sorted(wanted))


def endpoint_image(project: Project, spec: EnvironmentSpec, folder: str, *, gpu: bool) -> OwnImage:
    """What endpoints that name a folder run on machines of one kind."""
    return _image(project, spec, folder, repository=_SERVING, gpu=gpu)


def locked_uri(spec: EnvironmentSpec, locked: LockedImage) -> str:
    """An endpoint's image by its digest."""
    return f"{_repository(spec, _SERVING)}@{locked.digest}"


def image_folders(project: Project) -> list[str]:
    """The folders of containers/ that endpoints can name."""
    folders = project.containers
    return sorted(name for name in folders if name != BUILDER and (folders[name] / "Dockerfile").is_file())


def _image(
    project: Project, spec: EnvironmentSpec, folder: str, *, repository: str, gpu: bool, torch_index: str = ""
) -> OwnImage:
    base = image_uri(region=spec.region, release=spec.triton_release, gpu=gpu)
    digest = _digest(project.container(folder), base, torch_index)
    tag = f"{image_tag(release=spec.triton_release, gpu=gpu)}-{digest[:12]}"
    if folder != repository:
        tag = f"{folder}-{tag}"
    uri = f"{_repository(spec, repository)}:{tag}"
    return OwnImage(folder, "gpu" if gpu else "cpu", base, uri, torch_index)


def _repository(spec: EnvironmentSpec, name: str) -> str:
    registry = f"{spec.account}.dkr.ecr.{spec.region}.amazonaws.com"
    return f"{registry}/{naming.image_repository_name(spec.base, name)}"


def _digest(folder: Path, *arguments: str) -> str:
    """A hash over the folder that an image is built from, and over what the build is told."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    if not files:
        instead = ", or set `builds: {enabled: false}`" if folder.name == BUILDER else ""
        raise UsageError(
            f"there is nothing in {folder} to build an image from",
            remedy=f"bring back containers/{folder.name} from the repository{instead}",
        )
    digest = hashlib.sha256()
    for argument in arguments:
        digest.update(f"{argument}\0".encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
