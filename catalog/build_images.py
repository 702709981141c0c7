"""The images that models are built in: the very image that serves, and what builds need beside it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from catalog import naming
from catalog.environments import EnvironmentSpec
from catalog.errors import UsageError
from catalog.images import image_tag, image_uri
from catalog.project import Project

CPU_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own wheels without CUDA, some gigabytes smaller; a GPU's builder takes the usual ones."""


@dataclass(frozen=True)
class BuilderImage:
    """One image, with or without what a GPU needs."""

    kind: str
    """cpu or gpu."""
    base: str
    """What SageMaker serves with."""
    uri: str
    torch_index: str


def builder_image(project: Project, spec: EnvironmentSpec, *, gpu: bool) -> BuilderImage:
    """The builder of an environment; its tag changes with all that it is made from."""
    base = image_uri(region=spec.region, release=spec.triton_release, gpu=gpu)
    torch_index = "" if gpu else CPU_TORCH_INDEX
    digest = _digest(project.builder_dir, base, torch_index)
    tag = f"{image_tag(release=spec.triton_release, gpu=gpu)}-{digest[:12]}"
    registry = f"{spec.account}.dkr.ecr.{spec.region}.amazonaws.com"
    repository = naming.image_repository_name(spec.base, "builder")
    return BuilderImage("gpu" if gpu else "cpu", base, f"{registry}/{repository}:{tag}", torch_index)


def _digest(folder: Path, *arguments: str) -> str:
    """A hash over the folder that an image is built from, and over what the build is told."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    if not files:
        raise UsageError(
            f"there is nothing in {folder} to build the builder's image from",
            remedy="bring back containers/builder from the repository, or set `builds: {enabled: false}`",
        )
    digest = hashlib.sha256()
    for argument in arguments:
        digest.update(f"{argument}\0".encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
