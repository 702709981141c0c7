"""Roll an endpoint back to the artifacts that an earlier lock names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from tritonstack.base.error_kinds import ArtifactNotFoundError, NotDeployedError
from tritonstack.base.errors import InvalidFilesError, TritonstackError, UsageError, shown_path
from tritonstack.base.files import short_digest
from tritonstack.base.naming import SUPERSEDED_TAG, artifact_prefix
from tritonstack.base.results import Internal, Key, public
from tritonstack.base.revisions import commit_id
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.loading import ProjectFiles, load_workspace
from tritonstack.files.project.custom_images import locked_uri
from tritonstack.files.project.names import template_names
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event
from tritonstack.files.records.lock_writing import replace_entries
from tritonstack.files.records.locks import LockedImage, RolledBack
from tritonstack.files.records.manifests import MANIFEST_NAME
from tritonstack.operate.artifacts.publishing import fill_model_prefixes
from tritonstack.operate.deploy.deploy import deploy_workspace
from tritonstack.operate.deploy.preflight import require_endpoint
from tritonstack.operate.deploy.switching import Switch
from tritonstack.operate.jobs.codebuild import is_image_there
from tritonstack.operate.locks.versions import lock_history
from tritonstack.operate.rollback.rollback_now import plan_switches, switch_back
from tritonstack.operate.rollback.rollback_targets import (
    RollbackError,
    RollbackPlan,
    RollbackStep,
    as_planned,
    earlier_target,
    entries_to_write,
    plan_rollback,
)
from tritonstack.operate.shared.artifacts import copy_object, is_published, model_copies
from tritonstack.operate.shared.aws import Cloud, if_present, in_parallel
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.events import lock_event, now, read_events, record_event
from tritonstack.operate.shared.local_cloud import has_registry
from tritonstack.operate.shared.revisions import change_revision_of
from tritonstack.operate.shared.session import Session
from tritonstack.operate.verify.verdicts import Verdict
from tritonstack.operate.verify.verify import verify_workspace

# Artifacts can be restored within a month after their deletion: the last version is copied over the delete
# marker. Removing the marker would need permission to delete versions, which no deployer has.


def ensure_available(
    cloud: Cloud, workspace: Workspace, step: RollbackStep, artifacts_dir: Path, *, has_registry: bool
) -> bool:
    """Check that a rollback target is available; return whether it was restored.

    An artifact that exists only locally is available: the deployment publishes it. Without a registry, images
    are in the local Docker engine, and the deployment checks them.
    """
    entry, name = step.then.entry, step.slot.name
    if isinstance(entry, LockedImage):
        if has_registry:
            _require_image(cloud, workspace, entry)
        return False
    bucket = workspace.spec.artifact_bucket
    # Check this first: an archive may be deleted while its manifest exists.
    brought = restore_artifact(cloud, bucket=bucket, model=name, digest=entry.digest)
    if is_published(cloud, bucket=bucket, model=name, artifact=entry):
        return brought
    if not brought and (artifacts_dir / artifact_prefix(name, entry.digest) / MANIFEST_NAME).is_file():
        return False
    raise RollbackError(
        f"artifact {short_digest(entry.digest)} of {name!r} is gone from s3://{bucket}, "
        "including its old versions",
        remedy=_build_it_again(workspace, step),
        code=ArtifactNotFoundError.code,
    )


def _is_recorded(session: Session, workspace: Workspace, cloud: Cloud, back: RolledBack) -> bool:
    """Return whether the rollback in the lock was completed."""
    with session.reporter.step("reading the events of the environment"):
        bucket = workspace.spec.artifact_bucket
        events = read_events(cloud, bucket, kinds=["rolled-back"], since=back.at)
    return any((event.at, event.by) == (back.at, back.by) for event in events)


def record_rollback(cloud: Cloud, workspace: Workspace, plan: RollbackPlan, back: RolledBack) -> Event:
    """Write the rollback event; other models of those endpoints were not rolled back."""
    event = lock_event(
        "rolled-back",
        workspace,
        back,
        endpoints=plan.concerned,
        entries=((step.slot.name, step.then.key, step.then.entry) for step in plan.steps),
        note="; ".join(step.description for step in plan.steps),
    )
    record_event(cloud, workspace.spec.artifact_bucket, event)
    return event


def _require_image(cloud: Cloud, workspace: Workspace, image: LockedImage) -> None:
    uri = locked_uri(workspace.spec, image)
    if not is_image_there(cloud, uri):
        raise RollbackError(
            f"image not found: {uri}; registries cannot restore deleted images",
            remedy=f"rebuild it from a commit that produced {image.tag}",
            code=ArtifactNotFoundError.code,
        )


def _build_it_again(workspace: Workspace, step: RollbackStep) -> str:
    built = step.then.entry.built
    commit = f"commit {commit_id(built.commit)}" if built and built.commit else "the commit that built it"
    return f"run `tritonstack build {workspace.spec.name} {step.slot.name}` in a checkout of {commit}"


def restore_artifact(cloud: Cloud, *, bucket: str, model: str, digest: str) -> bool:
    """Restore a deleted artifact, its manifest last; return whether anything was restored.

    Can be interrupted and repeated.
    """
    s3 = cloud.client("s3")
    deleted = _deleted(s3, bucket, f"{artifact_prefix(model, digest)}/")
    for key in sorted(deleted, key=lambda key: key.endswith(f"/{MANIFEST_NAME}")):
        _copy_over_itself(s3, bucket, key, deleted[key])
    return bool(deleted)


def _copy_over_itself(s3: Any, bucket: str, key: str, version: str) -> None:
    """Copy it as published, without the `superseded` tag, which would expire it again."""
    origin = {"Bucket": bucket, "Key": key, "VersionId": version}
    head, tags = s3.head_object(**origin), s3.get_object_tagging(**origin)["TagSet"]
    other_tags = {tag["Key"]: tag["Value"] for tag in tags if tag["Key"] != SUPERSEDED_TAG[0]}
    settings = {
        "ContentType": head["ContentType"],
        "Metadata": head["Metadata"],
        "TaggingDirective": "REPLACE",
        "Tagging": urlencode(other_tags),
    }
    copy_object(s3, origin, bucket=bucket, settings=settings)


def _deleted(s3: Any, bucket: str, prefix: str) -> dict[str, str]:
    """Return the latest version of each key that a delete marker hides."""
    listing = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix)
    pages = if_present(lambda: list(listing))
    if pages is None:
        raise TritonstackError(
            f"bucket {bucket} does not exist",
            remedy="the environment is not deployed, so there is nothing to roll back",
            code=NotDeployedError.code,
        )
    latest: dict[str, str] = {}
    for item in (item for page in pages for item in page.get("Versions", ())):
        latest.setdefault(item["Key"], item["VersionId"])  # S3 lists the latest version of a key first
    markers = (item for page in pages for item in page.get("DeleteMarkers", ()))
    hidden = {item["Key"] for item in markers if item["IsLatest"]}
    return {key: latest[key] for key in sorted(hidden & set(latest))}


@dataclass(frozen=True)
class RolledBackEntry:
    """A lock entry that is rolled back."""

    name: str
    key: str
    origin: Annotated[str, Key("from")]
    """The digest before."""
    to: str
    """The digest after."""


@dataclass(frozen=True)
class Rollback:
    """A rollback that was planned or made."""

    plan: Internal[RollbackPlan]
    changed: bool
    """False for a dry run, and if the rollback was already complete."""

    @public
    def endpoint(self) -> str:
        """The endpoint that was named."""
        return self.plan.endpoint

    @public
    def origin(self) -> str:
        """The git version of the entries."""
        return self.plan.origin

    @public
    def also_rolled_back(self) -> tuple[str, ...]:
        """Other endpoints with the same models."""
        return self.plan.others

    @public
    def steps(self) -> list[RolledBackEntry]:
        """The entries of the lock that are rolled back."""
        return [
            RolledBackEntry(step.slot.name, step.then.key, step.now.entry.digest, step.then.entry.digest)
            for step in self.plan.steps
        ]


class RollbackRefutedError(RollbackError):
    """The rollback was deployed, but `verify` failed."""

    def __init__(self, plan: RollbackPlan, verdict: Verdict) -> None:
        super().__init__(
            f"{plan.endpoint} was rolled back, but what runs is not what the lock asks for",
            remedy="fix the errors above and rerun; it resumes here",
        )
        self.verdict = verdict


def rollback(
    session: Session,
    environment: str,
    endpoint: str,
    *,
    to: str | None = None,
    now: bool = False,
    dry_run: bool = False,
) -> Rollback:
    """Write the lock of an earlier commit or digest, deploy, and verify.

    `now` first switches the endpoints to what is retained for them, without alarms and waits; lock and stacks
    follow. Other endpoints that serve the same model are rolled back too. An interrupted rollback resumes
    when it is called again; a complete one changes nothing. Raises RollbackRefutedError if verification
    fails.
    """
    if environment in template_names(session.project):
        require_no_instance(session, environment, "<name>")
    workspace = load_workspace(session.project, environment)
    require_endpoint(workspace, endpoint)
    history = lock_history(session.project, environment)
    plan = plan_rollback(workspace, endpoint, history, to=to)
    if dry_run:
        _check(workspace, plan)
        if now:
            _plan_switches(session, workspace, session.cloud(workspace.spec), plan)
        return Rollback(plan, changed=False)
    cloud = session.cloud(workspace.spec)
    if plan.written and _is_recorded(session, workspace, cloud, plan.written):
        further = earlier_target(workspace, endpoint, history)
        session.reporter.note(
            f"{endpoint} is already rolled back, and nothing has changed since"
            + (f"; to go further back: --to {further}" if further else "")
        )
        return Rollback(plan, changed=False)
    back = plan.written or _rolled_back_by(workspace)
    _check(workspace, plan)
    _apply(session, workspace, cloud, plan, back, now=now)
    file = shown_path(workspace.lock.file)
    session.reporter.note(f"commit {file}, which records what {environment} runs now")
    return Rollback(plan, changed=True)


def require_no_instance(session: Session, environment: str, instance: str) -> None:
    """Raise UsageError: an instance of a template has no lock of its own."""
    owner = ProjectFiles(session.project).template(environment).head.locks
    raise UsageError(
        f"instances of {environment} have no lock of their own: they use that of {owner}",
        remedy=f"roll back {owner} (`tritonstack rollback {owner}`), or check out an earlier lock "
        f"(`git checkout <commit> -- {shown_path(session.project.lock_file(owner))}`); then run "
        f"`tritonstack deploy {environment} --name {instance}`",
        code=RollbackError.code,
    )


def _plan_switches(
    session: Session, workspace: Workspace, cloud: Cloud, plan: RollbackPlan
) -> tuple[Workspace, list[Switch]]:
    """Return the workspace after the rollback, and what its endpoints are switched to."""
    after = workspace if plan.written else as_planned(workspace, plan, _rolled_back_by(workspace))
    with session.reporter.step("looking for retained configurations") as step:
        switches = plan_switches(cloud, after, plan)
        for planned in switches:
            step.log(f"{planned.endpoint}: {planned.target}{' (in use)' if planned.done else ''}")
    return after, switches


def _switch(session: Session, workspace: Workspace, cloud: Cloud, plan: RollbackPlan) -> None:
    """Serve the earlier artifacts at once; can be repeated."""
    after, switches = _plan_switches(session, workspace, cloud, plan)
    fill_model_prefixes(
        session, after, cloud, [copy for copy in model_copies(after) if copy.endpoint in plan.concerned]
    )
    with session.reporter.steps() as steps:

        def run(planned: Switch) -> None:
            title = f"switching {planned.endpoint} to {planned.target}"
            with steps.step(title, label=planned.endpoint) as step:
                switch_back(cloud, planned, on_change=step.log)

        in_parallel(run, switches)
    served = ", ".join(planned.endpoint for planned in switches)
    if served:
        session.reporter.note(f"{served}: the earlier artifacts serve now; lock and stack follow")


def _apply(
    session: Session, workspace: Workspace, cloud: Cloud, plan: RollbackPlan, back: RolledBack, *, now: bool
) -> None:
    """Apply a plan; each step can be repeated, so that an interrupted rollback resumes."""
    store, registry = session.project.artifacts_dir, has_registry(workspace.spec)
    with session.reporter.step("checking that the earlier artifacts still exist") as progress:
        for step in plan.steps:
            if ensure_available(cloud, workspace, step, store, has_registry=registry):
                progress.log(f"{step.description}: restored after its deletion")
    if now:
        _switch(session, workspace, cloud, plan)
    if plan.written is None:
        replace_entries(workspace.lock.file, entries_to_write(workspace, plan, back))
        session.reporter.note(f"{shown_path(workspace.lock.file)} written")
    updated = load_workspace(workspace.project, workspace.spec.name)
    deploy_workspace(session, updated, cloud, bootstrap=False, only=plan.concerned)
    verdict = verify_workspace(session, updated, cloud, endpoints=plan.concerned)
    if not verdict.passed:
        raise RollbackRefutedError(plan, verdict)
    with session.reporter.step("recording the rollback"):
        record_rollback(cloud, updated, plan, back)


def _check(workspace: Workspace, plan: RollbackPlan) -> None:
    """Raise if the planned lock could not be deployed, before anything is written."""
    after = workspace if plan.written else as_planned(workspace, plan, _rolled_back_by(workspace))
    if violations := unbuilt(after, *plan.concerned):
        raise InvalidFilesError(violations)


def _rolled_back_by(workspace: Workspace) -> RolledBack:
    checkout, revision = Checkout(workspace.project.root), change_revision_of(workspace)
    return RolledBack(
        instead_of="",
        as_of="",
        by=checkout.actor(),
        at=now(),
        commit=revision.text,
        uncommitted=revision.recorded,
    )
