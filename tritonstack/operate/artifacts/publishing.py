"""Publish artifacts from this machine to the bucket that endpoints load from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from model_build.store.artifacts import verify_artifact
from model_build.store.publishing import Published, publish
from tritonstack.base.error_kinds import ArtifactNotFoundError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import short_digest
from tritonstack.base.naming import artifact_prefix
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.files.records.manifests import MANIFEST_NAME, Manifest
from tritonstack.operate.shared.artifacts import CopiedModel, ModelCopy, copy_missing_models, is_published
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.session import Session


def missing_artifacts(
    session: Session,
    workspace: Workspace,
    cloud: Cloud,
    *,
    endpoints: Collection[str],
    lent: Collection[str] = (),
) -> list[Path]:
    """Return the artifacts of endpoints that the bucket lacks, checked on this machine.

    Called before a deploy, so that a corrupt artifact cannot leave half an environment. `lent` holds the
    digests that come from another environment.
    """
    needed = {
        (served.model, artifact.digest): artifact
        for name in endpoints
        for served in workspace.serves(name)
        if (artifact := workspace.artifact_for(served.model, served.instance))
    }
    bucket = workspace.spec.artifact_bucket
    return [
        _local_artifact(session, workspace, model, needed[model, digest])
        for model, digest in sorted(needed)
        if digest not in lent
        and not is_published(cloud, bucket=bucket, model=model, artifact=needed[model, digest])
    ]


def local_manifest(session: Session, model: str, digest: str) -> tuple[Path, Manifest] | None:
    """Return an intact local artifact with its examples; None if it has to be built again."""
    artifact = session.project.artifacts_dir / artifact_prefix(model, digest)
    try:
        manifest = verify_artifact(artifact)
    except TritonstackError:
        return None  # damaged, or of another version
    return (artifact, manifest) if manifest.examples_sha256 is not None else None


def publish_artifact(session: Session, workspace: Workspace, cloud: Cloud, artifact: Path) -> Published:
    """Upload a local artifact, as far as the bucket lacks it."""
    bucket = workspace.spec.artifact_bucket
    with session.reporter.step(
        f"publishing {artifact.parent.name} {short_digest(artifact.name)} to {bucket}"
    ):
        return publish(artifact_dir=artifact, bucket=bucket, s3_client=cloud.client("s3"))


def fill_model_prefixes(
    session: Session, workspace: Workspace, cloud: Cloud, copies: Sequence[ModelCopy]
) -> Mapping[str, list[str]]:
    """Copy models to the prefixes of multi-model endpoints; return endpoint -> models that were missing."""
    if not copies:
        return {}
    copied_models: dict[str, list[str]] = defaultdict(list)
    with session.reporter.step("copying models to the prefixes of multi-model endpoints") as step:
        count = 0

        def on_copied(copied: CopiedModel) -> None:
            nonlocal count
            count += 1
            step.update(f"{count} of {len(copies)}")
            if copied.outcome == "replaced":
                step.log(f"{copied.copy.key} did not match its digest and was replaced")
            if copied.outcome != "there":
                copied_models[copied.copy.endpoint].append(copied.copy.model)

        copy_missing_models(cloud, bucket=workspace.spec.artifact_bucket, copies=copies, on_done=on_copied)
        step.detail = f"{sum(map(len, copied_models.values()))} of {len(copies)} missing"
    return copied_models


def _local_artifact(session: Session, workspace: Workspace, model: str, locked: LockedArtifact) -> Path:
    bucket = workspace.spec.artifact_bucket
    artifact = session.project.artifacts_dir / artifact_prefix(model, locked.digest)
    if not (artifact / MANIFEST_NAME).is_file():
        owner = workspace.lock_owner
        source = locked.promoted.source if locked.promoted else workspace.promotion_source
        raise ArtifactNotFoundError(
            f"artifact {short_digest(locked.digest)} of {model!r} is missing in s3://{bucket} "
            "and on this machine",
            remedy=f"run `tritonstack promote {source} {owner} {model}`"
            if source
            else f"run `tritonstack build {owner}`",
        )
    verify_artifact(artifact)
    return artifact
