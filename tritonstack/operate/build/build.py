"""Build the artifacts that an environment needs, publish them, and lock them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from model_build.progress import process_seconds
from tritonstack.base.errors import shown_path
from tritonstack.base.files import short_digest
from tritonstack.base.results import Internal, Key, public
from tritonstack.base.revisions import list_files, short_commit
from tritonstack.files.checks.notes import unpromoted_note
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.build_machines import ManualBuild
from tritonstack.files.project.build_plans import NeededArtifact, needed_artifacts
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import add_to_lock, attest_builds
from tritonstack.files.records.locks import Built, load_lock
from tritonstack.files.records.manifests import Manifest
from tritonstack.operate.artifacts.publishing import fill_model_prefixes, local_manifest, publish_artifact
from tritonstack.operate.build.local_build import build_locally, most_at_once
from tritonstack.operate.build.outcomes import Outcome, failure_of
from tritonstack.operate.build.planning import rolled_back_note
from tritonstack.operate.build.remote_build import build_remotely, prepare_bucket, prepare_build_infra
from tritonstack.operate.invoke.examples import has_examples
from tritonstack.operate.shared.artifacts import is_published, model_copies
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.events import built_event, built_now, record_event, touched
from tritonstack.operate.shared.new_files import remove_unfinished_models
from tritonstack.operate.shared.session import Session


@dataclass(frozen=True)
class BuildResult:
    """The outcome of a build: all artifacts are built or were up to date."""

    workspace: Internal[Workspace]
    changed: bool
    """True if the lock changed."""
    built: Internal[Built]
    """The commit that was built from."""
    outcomes: Annotated[tuple[Outcome, ...], Key("artifacts")]

    @public
    def lock(self) -> Path:
        """The lock file."""
        return self.workspace.lock.file

    @public
    def commit(self) -> str | None:
        """The commit that was built from."""
        return self.built.commit

    @public
    def uncommitted(self) -> tuple[str, ...]:
        """Files that differed from the commit."""
        return self.built.uncommitted or ()


def build(
    session: Session,
    environment: str,
    models: Sequence[str] = (),
    *,
    publish: bool = True,
    local: bool = False,
    at_once: int | None = None,
    wait: bool = True,
    expose: bool = False,
) -> BuildResult:
    """Build what the lock of an environment lacks, compare it with the framework, and write the lock.

    Builds run in the account unless `local` is set or `publish` is not. `models` defaults to all that the
    environment serves, `at_once` to what this machine has room for. Without `wait`, jobs in the account are
    started and not followed. With `expose`, Triton can listen on every network interface if it cannot be
    isolated. Raises TritonstackError if a build fails; the others are locked all the same.
    """
    remove_unfinished_models(session.project)
    workspace = load_workspace(session.project, environment)
    artifacts = needed_artifacts(workspace, models)
    locally = local or not publish
    cloud = session.cloud(workspace.spec) if publish else None
    built = built_now(workspace)
    if built.uncommitted:
        session.reporter.note(
            f"building from commit {short_commit(str(built.commit))}; uncommitted: "
            f"{list_files(built.uncommitted, most=10)}; protected environments do not accept such builds"
        )
    run = _Build(session, workspace, cloud, locally, built, expose)
    images_changed = _lock_images(session, workspace, cloud, built, locally=locally)
    try:
        run.run(artifacts, at_once=at_once or most_at_once(), wait=wait)
    finally:
        changed = run.keep()
    if note := unpromoted_note(load_lock(workspace.lock.file), workspace.spec):
        session.reporter.note(f"note: {note}")
    failure = failure_of(run.outcomes)
    if failure is not None:
        raise failure
    return BuildResult(workspace, changed or images_changed, built, tuple(run.outcomes))


@dataclass
class _Build:
    session: Session
    workspace: Workspace
    cloud: Cloud | None
    here: bool
    built: Built
    expose: bool

    def __post_init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def run(self, artifacts: Sequence[NeededArtifact], *, at_once: int, wait: bool) -> None:
        """Build the artifacts that are missing."""
        with self.session.reporter.step("looking for the artifacts of the lock"):
            missing = [needed for needed in artifacts if not self._exists(needed)]
        local = [needed for needed in missing if self.here or isinstance(needed.build_machine, ManualBuild)]
        remote = [needed for needed in missing if needed not in local]
        if remote and self.cloud is not None:
            infra = prepare_build_infra(self.session, self.workspace, self.cloud)
            build_remotely(
                self.session, self.cloud, infra, remote, wait_for_it=wait, on_done=self.outcomes.append
            )
        if local:
            if self.cloud is not None:
                prepare_bucket(self.session, self.workspace, self.cloud)
            count = f"{len(local)} of {len(artifacts)} artifacts to build here"
            self.session.reporter.note(f"prepare: {count} ({process_seconds():.1f} s)")
            build_locally(
                self.session, local, at_once=at_once, expose=self.expose, on_done=self.outcomes.append
            )

    def keep(self) -> bool:
        """Publish local builds and lock all that succeeded; return whether the lock changed."""
        begin = time.monotonic()
        self.outcomes.sort(key=lambda outcome: (outcome.needed.model, outcome.needed.targets))
        manifests = [outcome.manifest for outcome in self.outcomes if outcome.manifest]
        if self.cloud is not None:
            manifests = self._publish(self.cloud)
            self._fill_prefixes(self.cloud, manifests)
        lock = self.workspace.lock.file
        initial_lock = self.workspace.lock.record
        to_lock = self._to_lock(manifests)
        changed = (
            add_to_lock(lock, to_lock, self._parts(to_lock), built=self.built, initial_lock=initial_lock)
            if to_lock
            else False
        )
        fresh = [done.manifest.digest for done in self.outcomes if done.manifest and not done.reused]
        changed |= attest_builds(lock, self.built, hashes=self.workspace.hashes, rebuilt=fresh)
        if manifests:
            self._report_conflicts(to_lock)
            state = "written" if changed else "is up to date"
            seconds = time.monotonic() - begin
            self.session.reporter.note(f"{shown_path(lock)} {state} ({seconds:.1f} s)")
        return changed

    def _to_lock(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        """Return all manifests but those whose lock entry is right although they describe another build.

        A kept artifact was built from other files. Two builds can write the same bytes: then the lock
        describes that of the current files, and the manifest on this machine or in the bucket the other one.
        """
        right: dict[tuple[str, str], str | None] = {}
        for needed in (outcome.needed for outcome in self.outcomes):
            if needed.locked and not needed.reason:
                right[needed.model, needed.locked.digest] = None if needed.is_kept else needed.spec_hash
        return [
            manifest
            for manifest in manifests
            if right.get((manifest.model, manifest.digest), manifest.spec_hash) == manifest.spec_hash
        ]

    def _report_conflicts(self, manifests: Sequence[Manifest]) -> None:
        for manifest in manifests:
            conflicting = self.workspace.lock.record.conflicting(manifest.model, manifest.target)
            for target, entry in sorted(conflicting.items()):
                self.session.reporter.note(
                    f"{manifest.model} for {manifest.target} replaces the entry for {target} "
                    f"({short_digest(entry.digest)}), which the same machines would load first"
                )

    def _publish(self, cloud: Cloud) -> list[Manifest]:
        """Upload local artifacts, record an event, and return the manifests in the bucket.

        The event precedes the lock: if the process is killed in between, the next build locks the artifact.
        """
        new, manifests = [], []
        for outcome in self.outcomes:
            manifest, uploaded, locked = outcome.manifest, False, outcome.needed.locked
            if manifest is None:
                continue
            if outcome.artifact_dir is not None:
                published = publish_artifact(self.session, self.workspace, cloud, outcome.artifact_dir)
                uploaded = published.uploaded
                # An earlier build of the same bytes may have checked other inputs or other bounds.
                if published.manifest.spec_hash == manifest.spec_hash:
                    manifest = published.manifest
            manifests.append(manifest)
            if uploaded or locked is None or locked.digest != manifest.digest:
                new.append(touched(manifest))
        if new:
            bucket = self.workspace.spec.artifact_bucket
            with self.session.reporter.step("recording the build"):
                record_event(cloud, bucket, built_event(self.workspace, self.built, new))
        return manifests

    def _exists(self, needed: NeededArtifact) -> bool:
        """Return whether the artifact of the lock is up to date and stored where it is needed."""
        if needed.reason or needed.locked is None:
            return False
        if needed.is_rolled_back:
            self.session.reporter.note(
                f"{needed.model} for {needed.target}: {rolled_back_note(self.workspace, needed.model)}"
            )
        bucket, digest = self.workspace.spec.artifact_bucket, needed.locked.digest
        published = self.cloud is not None and is_published(
            self.cloud, bucket=bucket, model=needed.model, artifact=needed.locked
        )
        intact = published and (
            needed.is_kept
            or (
                self.cloud is not None
                and has_examples(self.cloud, bucket=bucket, model=needed.model, digest=digest)
            )
        )
        stored = local_manifest(self.session, needed.model, digest)
        if stored is not None:
            folder, manifest = stored
            self.outcomes.append(Outcome(needed, manifest, reused=True, artifact_dir=folder))
        elif intact or needed.is_kept:
            self.outcomes.append(Outcome(needed, reused=True))
            if self.cloud is not None and not published:
                self._report_missing(needed)
        return intact or needed.is_kept or stored is not None

    def _report_missing(self, needed: NeededArtifact) -> None:
        """Report a missing artifact; a new build would replace it in the lock without passing a gate."""
        name, locked = self.workspace.spec.name, needed.locked
        promoted = locked.promoted if locked else None
        how = f"`tritonstack promote {promoted.source} {name}`" if promoted else "`tritonstack rollback`"
        self.session.reporter.note(
            f"artifact of {needed.model} in {shown_path(self.workspace.lock.file)} is missing in "
            f"s3://{self.workspace.spec.artifact_bucket} and on this machine; {how} restores it"
        )

    def _fill_prefixes(self, cloud: Cloud, manifests: Sequence[Manifest]) -> None:
        """Copy built models to multi-model endpoints before the lock is written."""
        lock = self.workspace.lock.record
        for manifest in manifests:
            lock = lock.with_artifact(manifest)
        locked = replace(self.workspace, lock=replace(self.workspace.lock, record=lock))
        names = {outcome.needed.model for outcome in self.outcomes if outcome.error is None}
        fill_model_prefixes(self.session, self.workspace, cloud, model_copies(locked, models=names))

    def _parts(self, manifests: Sequence[Manifest]) -> Mapping[str, Mapping[str, str]]:
        hashes = self.workspace.model_hashes
        return {
            manifest.model: hashes[manifest.model].parts
            for manifest in manifests
            if manifest.spec_hash == hashes[manifest.model].value
        }


def _lock_images(
    session: Session, workspace: Workspace, cloud: Cloud | None, built: Built, *, locally: bool
) -> bool:
    if not any(endpoint.image for endpoint in workspace.spec.endpoints.values()):
        return False
    # Imported here: only environments with custom images need Docker's library.
    from tritonstack.operate.build.custom_images import lock_images  # noqa: PLC0415

    return lock_images(session, workspace, cloud, built, locally=locally)
