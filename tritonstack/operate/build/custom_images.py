"""Build the custom images that endpoints run, and lock their digests.

CodeBuild builds them if builds in the account are enabled; otherwise the local Docker engine does.
The local cloud has no registry: images stay in the local engine, and their digest is the image ID.
"""

from __future__ import annotations

import subprocess
import threading

import docker
from docker.errors import BuildError, DockerException

from tritonstack.base.errors import shown_path
from tritonstack.files.project.custom_images import OwnImage, endpoint_images
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import add_image_to_lock
from tritonstack.files.records.locks import Built, LockedImage
from tritonstack.operate.build.outcomes import LINES_SHOWN
from tritonstack.operate.build.remote_build import build_images_remotely, prepare_build_infra
from tritonstack.operate.jobs.codebuild import UnusableImageError, image_digest
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.local_cloud import has_registry
from tritonstack.operate.shared.session import Session
from tritonstack.triton.docker_engine import docker_engine, held_image


def lock_images(
    session: Session, workspace: Workspace, cloud: Cloud | None, built: Built, *, locally: bool
) -> bool:
    """Build missing images and write the lock; return whether it changed."""
    changed = False
    initial_lock = workspace.lock.record
    for image in endpoint_images(workspace.project, workspace.spec):
        before = initial_lock.images.get(image.folder, {}).get(image.kind)
        if before is not None and before.is_held(image.tag):
            session.reporter.note(f"image {before.tag} is kept: it was restored by a rollback")
            continue
        digest = _digest(session, workspace, cloud, image, locally=locally)
        entry = LockedImage(digest=digest, tag=image.tag)
        changed |= add_image_to_lock(
            workspace.lock.file, image.folder, image.kind, entry, built=built, initial_lock=initial_lock
        )
        session.reporter.note(f"image {image.tag} {digest[:19]} locked in {shown_path(workspace.lock.file)}")
    return changed


def _digest(
    session: Session, workspace: Workspace, cloud: Cloud | None, image: OwnImage, *, locally: bool
) -> str:
    if cloud is None or not has_registry(workspace.spec):
        return _built_here(session, workspace, image)
    digest = image_digest(cloud, image.uri)
    if digest is None:
        if locally or not workspace.spec.builds_in_account:
            _publish_from_here(session, workspace, cloud, image)
        else:
            infra = prepare_build_infra(session, workspace, cloud)
            build_images_remotely(session, cloud, infra, threading.Event())
        digest = image_digest(cloud, image.uri)
    if digest is None:
        raise UnusableImageError(
            f"{image.uri} was built but is not in its repository",
            remedy="check what deletes it, such as a lifecycle policy, and rebuild",
        )
    return digest


def _built_here(session: Session, workspace: Workspace, image: OwnImage) -> str:
    """Return the image ID, building the image in the local engine if needed."""
    engine = docker_engine()
    if held_image(engine, image.uri) is None:
        with session.reporter.step(f"building image {image.tag}"):
            _build(engine, workspace, image)
    return str(engine.images.get(image.uri).id)


def _build(engine: docker.DockerClient, workspace: Workspace, image: OwnImage) -> None:
    if held_image(engine, image.base) is None:
        raise UnusableImageError(
            f"base image {image.base} of {image.tag} is not in the local Docker engine",
            remedy=f"log in to its registry and run `docker pull {image.base}`",
        )
    folder = workspace.project.container(image.folder)
    try:
        engine.images.build(
            path=str(folder),
            tag=image.uri,
            buildargs={"BASE_IMAGE": image.base},
            network_mode="host",
            rm=True,
        )
    except BuildError as error:
        lines = "".join(part.get("stream", "") for part in error.build_log).splitlines()[-LINES_SHOWN:]
        raise UnusableImageError(
            f"cannot build {image.tag}: {error}\n" + "\n".join(lines),
            remedy=f"fix {shown_path(folder / 'Dockerfile')}",
        ) from error
    except DockerException as error:
        raise UnusableImageError(
            f"cannot build {image.tag}: {error}",
            remedy=f"check that Docker runs (`docker info`) and can pull {image.base}",
        ) from error


def _publish_from_here(session: Session, workspace: Workspace, cloud: Cloud, image: OwnImage) -> None:
    script = workspace.project.container("publish.sh")
    with session.reporter.step(f"building and pushing image {image.tag}"):
        result = subprocess.run(
            ["sh", str(script), *image.arguments],
            env=cloud.process_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if result.returncode:
        output = "\n".join(result.stdout.splitlines()[-LINES_SHOWN:])
        raise UnusableImageError(
            f"cannot build and push {image.tag}:\n{output}",
            remedy="this requires the aws and docker CLIs, and a Docker engine",
        )
