"""Plan a build: which artifacts and images it would make, where, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from tritonstack.base.files import short_digest
from tritonstack.base.results import Internal, Key, public
from tritonstack.facts.drivers import CUDA_12_DRIVER, least_driver
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.build_machines import BuildMachine, ManualBuild
from tritonstack.files.project.build_plans import NeededArtifact, needed_artifacts
from tritonstack.files.project.custom_images import OwnImage, endpoint_images
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.artifacts.publishing import local_manifest
from tritonstack.operate.shared.session import Session


@dataclass(frozen=True)
class PlannedArtifact:
    """An artifact that an environment needs."""

    model: str
    targets: tuple[str, ...]
    reason: str
    """Why it has to be built; empty if it is up to date."""
    where: str
    digest: str | None
    """The digest in the lock."""
    text: Annotated[str, Key("summary")]

    @public
    def build(self) -> bool:
        """True if it has to be built."""
        return bool(self.reason)


@dataclass(frozen=True)
class PlannedImage:
    """A custom image that an endpoint runs."""

    tag: Annotated[str, Key("image")]
    up_to_date: Internal[bool]

    @public
    def summary(self) -> str:
        """The plan of this image in one line."""
        return f"image {self.tag}: {'up to date' if self.up_to_date else 'to build if missing'}"

    @public
    def build(self) -> bool:
        """True if it has to be built."""
        return not self.up_to_date


@dataclass(frozen=True)
class BuildPlan:
    """What a build would make."""

    environment: str
    artifacts: tuple[PlannedArtifact, ...]
    images: tuple[PlannedImage, ...]


def plan_build(
    session: Session, environment: str, models: Sequence[str] = (), *, local: bool = False
) -> BuildPlan:
    """Return what `build` would make, where, and why. Builds nothing."""
    workspace = load_workspace(session.project, environment)
    artifacts = needed_artifacts(workspace, models)
    return BuildPlan(
        workspace.spec.name,
        tuple(_artifact(session, workspace, needed, local=local) for needed in artifacts),
        tuple(_image(workspace, image) for image in endpoint_images(session.project, workspace.spec)),
    )


def _image(workspace: Workspace, image: OwnImage) -> PlannedImage:
    locked = workspace.lock.record.images.get(image.folder, {}).get(image.kind)
    return PlannedImage(
        image.tag, locked is not None and (locked.tag == image.tag or locked.is_held(image.tag))
    )


def _artifact(
    session: Session, workspace: Workspace, needed: NeededArtifact, *, local: bool
) -> PlannedArtifact:
    build_machine = ManualBuild(needed.build_machine.hardware) if local else needed.build_machine
    reason = needed.reason
    if not reason and needed.locked and not needed.is_kept and isinstance(build_machine, ManualBuild):
        absent = local_manifest(session, needed.model, needed.locked.digest) is None
        reason = "the local artifact is missing or corrupt" if absent else ""
    subject = f"{needed.model} for {needed.target}"
    digest = needed.locked.digest if needed.locked else None
    text = (
        f"{subject}: to build {build_machine.description}: {reason}{_driver_note(workspace, build_machine)}"
        if reason
        else f"{subject}: {_locked_state(workspace, needed)}"
    )
    return PlannedArtifact(
        needed.model, tuple(needed.targets), reason, build_machine.description, digest, text
    )


def rolled_back_note(workspace: Workspace, model: str) -> str:
    """Name the command that replaces a rolled-back artifact."""
    verb = "promotes" if workspace.promotion_source else "builds"
    return f"rolled back; `{workspace.lock_command} {model}` {verb} the new version"


def _locked_state(workspace: Workspace, needed: NeededArtifact) -> str:
    digest = short_digest(needed.locked.digest) if needed.locked else "none"
    if needed.is_rolled_back:
        return f"{digest} is {rolled_back_note(workspace, needed.model)}"
    return f"up to date, {digest}"


def _driver_note(workspace: Workspace, build_machine: BuildMachine) -> str:
    """Name the driver that a release needs if AWS does not document the driver of the machine."""
    release = workspace.spec.release
    least = least_driver(release, sure=False)
    if isinstance(build_machine, ManualBuild) or build_machine.hardware == "cpu" or least <= CUDA_12_DRIVER:
        return ""
    return f"; CUDA {release.cuda} needs NVIDIA driver {least} or newer, which the job checks first"
