"""`tritonstack build`: make, prove, publish and lock the artifacts that an environment needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from tritonstack.base.errors import shown_path
from tritonstack.base.revisions import list_files, short_commit
from tritonstack.cli.context import Context
from tritonstack.operations.artifacts import is_published
from tritonstack.operations.aws import Cloud
from tritonstack.operations.events import built_event, built_now, record_event, touched
from tritonstack.operations.model_prefix import shelf_copies
from tritonstack.operations.smoke.examples import has_examples
from tritonstack.project.build_machines import ByHand, Venue
from tritonstack.project.build_plans import NeededArtifact, needed_artifacts
from tritonstack.project.custom_images import OwnImage, endpoint_images
from tritonstack.project.files.model_hashes import hash_parts
from tritonstack.project.loading import load_workspace
from tritonstack.project.workspace import Workspace
from tritonstack.records.lock_seals import PlacedEntry, broken_seal
from tritonstack.records.lock_writing import add_to_lock, attest_builds
from tritonstack.records.locks import Built
from tritonstack.records.manifests import Manifest
from tritonstack.reference.drivers import CUDA_12_DRIVER, least_driver
from tritonstack.runtime.sandbox import EXPOSE
from tritonstack.spec.models.inputs import WRITE_ANSWERS
from tritonstack.workflows.builds.artifacts import fill_model_prefixes, local_manifest, publish_artifact
from tritonstack.workflows.builds.local_build import build_locally, most_at_once
from tritonstack.workflows.builds.outcomes import Outcome, failure_of
from tritonstack.workflows.builds.remote_build import build_remotely, prepare_bucket, prepare_ground


def build(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to build for.")],
    models: Annotated[list[str] | None, typer.Argument(help="Models; by default all it serves.")] = None,
    upload: Annotated[
        bool,
        typer.Option("--publish/--no-publish", help="Upload to the environment's artifact bucket."),
    ] = True,
    local: Annotated[
        bool, typer.Option("--local", help="Build on this machine, not in the environment's account.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what would be built where, and why; build nothing.")
    ] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Builds at once on this machine.")] = None,
    expose: Annotated[
        bool,
        typer.Option("--expose", help="Allow Triton on every network interface where it cannot be isolated."),
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Start the jobs in the account, and do not wait for them.")
    ] = False,
) -> None:
    """Build what an environment's lock lacks, check it against the framework, and write the lock.

    Builds run in the environment's account: Ctrl-C ends the watching, not the builds, and the same command
    attaches to them again. With --local or --no-publish they run on this machine, and so they do for the
    embedded cloud unless the environment's file says `builds: {enabled: true}`.

    Example: tritonstack build local --no-publish
    """
    state: Context = context.obj
    if expose:
        os.environ[EXPOSE] = "1"
    workspace = load_workspace(state.project, environment)
    wanted = needed_artifacts(workspace, models or ())
    here = local or not upload
    if explain:
        _explain(state, workspace, wanted, here=here)
        return
    cloud = state.cloud(workspace.spec) if upload else None
    built = built_now(workspace)
    if built.uncommitted:
        state.output.note(
            f"building from commit {short_commit(str(built.commit))}; uncommitted: "
            f"{list_files(built.uncommitted, most=10)}; protected environments do not accept such builds"
        )
    run = _Run(state, workspace, cloud, here, built)
    images_changed = _lock_images(state, workspace, cloud, built, here=here)
    try:
        run.build(wanted, at_once=jobs or most_at_once(), wait_for_it=not no_wait)
    finally:
        changed = run.keep()
    failure = failure_of(run.outcomes)
    if failure is not None:
        raise failure
    state.output.result(
        {
            "lock": str(workspace.lock.file),
            "changed": changed or images_changed,
            "commit": built.commit,
            "uncommitted": list(built.uncommitted or ()),
            "artifacts": [outcome.facts() for outcome in run.outcomes],
        },
        text="\n".join(_summary(outcome) for outcome in run.outcomes) or "nothing has been built yet",
    )


@dataclass
class _Run:
    """One run of the command."""

    state: Context
    workspace: Workspace
    cloud: Cloud | None
    here: bool
    built: Built

    def __post_init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def build(self, wanted: Sequence[NeededArtifact], *, at_once: int, wait_for_it: bool) -> None:
        """Build what is not there."""
        missing = [needed for needed in wanted if not self._is_there(needed)]
        here = [needed for needed in missing if self.here or isinstance(needed.venue, ByHand)]
        there = [needed for needed in missing if needed not in here]
        if there and self.cloud is not None:
            ground = prepare_ground(self.state, self.workspace, self.cloud)
            build_remotely(
                self.state,
                self.cloud,
                ground,
                there,
                wait_for_it=wait_for_it,
                on_done=self.outcomes.append,
            )
        if here:
            if self.cloud is not None:
                prepare_bucket(self.state, self.workspace, self.cloud)
            build_locally(self.state, here, at_once=at_once, on_done=self.outcomes.append)

    def keep(self) -> bool:
        """Publish what was built here, and lock all that succeeded; tells whether the lock changed."""
        self.outcomes.sort(key=lambda outcome: (outcome.needed.model, outcome.needed.targets))
        made = [outcome.manifest for outcome in self.outcomes if outcome.manifest]
        if self.cloud is not None:
            made = self._publish(self.cloud)
            self._fill_shelves(self.cloud, made)
        lock = self.workspace.lock.file
        begun = self.workspace.lock.record
        changed = add_to_lock(lock, made, self._parts(made), built=self.built, begun=begun) if made else False
        fresh = [one.manifest.digest for one in self.outcomes if one.manifest and not one.reused]
        changed |= attest_builds(lock, self.built, hashes=self.workspace.hashes, rebuilt=fresh)
        if made:
            self._tell_of_rivals(made)
            self.state.output.note(f"{shown_path(lock)} {'written' if changed else 'is up to date'}")
        return changed

    def _tell_of_rivals(self, made: Sequence[Manifest]) -> None:
        for manifest in made:
            rivals = self.workspace.lock.record.rivals(manifest.model, manifest.target)
            for target, rival in sorted(rivals.items()):
                self.state.output.note(
                    f"{manifest.model} for {manifest.target} takes the place of that for {target} "
                    f"({rival.digest[:12]}): the same machines would have taken that first"
                )

    def _publish(self, cloud: Cloud) -> list[Manifest]:
        """Upload what lies here, and write down what is new in the bucket; the manifests as they lie there.

        That comes before the lock: a build that is killed in between is told of by the one that locks it.
        """
        new, made = [], []
        for outcome in self.outcomes:
            manifest, uploaded, locked = outcome.manifest, False, outcome.needed.locked
            if manifest is None:
                continue
            if outcome.artifact_dir is not None:
                published = publish_artifact(self.state, self.workspace, cloud, outcome.artifact_dir)
                manifest, uploaded = published.manifest, published.uploaded
            made.append(manifest)
            if uploaded or locked is None or locked.digest != manifest.digest:
                new.append(touched(manifest))
        if new:
            bucket = self.workspace.spec.artifact_bucket
            record_event(cloud, bucket, built_event(self.workspace, self.built, new))
        return made

    def _is_there(self, needed: NeededArtifact) -> bool:
        """Whether the lock's artifact is up to date, and lies where it is needed."""
        if needed.reason or needed.locked is None:
            return False
        bucket, digest = self.workspace.spec.artifact_bucket, needed.locked.digest
        published = self.cloud is not None and is_published(
            self.cloud, bucket=bucket, model=needed.model, artifact=needed.locked
        )
        whole = published and (
            needed.is_kept
            or (
                self.cloud is not None
                and has_examples(self.cloud, bucket=bucket, model=needed.model, digest=digest)
            )
        )
        found = local_manifest(self.state, needed.model, digest)
        if found is not None:
            folder, manifest = found
            self.outcomes.append(Outcome(needed, manifest, reused=True, artifact_dir=folder))
        elif whole or needed.is_kept:
            self.outcomes.append(Outcome(needed, reused=True))
            if self.cloud is not None and not published:
                self._tell_missing(needed)
        return whole or needed.is_kept or found is not None

    def _tell_missing(self, needed: NeededArtifact) -> None:
        """Another build would take its place in the lock, and no gate would have seen it."""
        name, locked = self.workspace.spec.name, needed.locked
        promoted = locked.promoted if locked else None
        how = f"`tritonstack promote {promoted.source} {name}`" if promoted else "`tritonstack rollback`"
        self.state.output.note(
            f"the artifact that {shown_path(self.workspace.lock.file)} names of {needed.model} is neither in "
            f"s3://{self.workspace.spec.artifact_bucket} nor on this machine; {how} brings it back"
        )

    def _fill_shelves(self, cloud: Cloud, made: Sequence[Manifest]) -> None:
        """Give multi-model endpoints what was built, before the lock tells of it: the CDK can deploy then."""
        lock = self.workspace.lock.record
        for manifest in made:
            lock = lock.with_artifact(manifest)
        locked = replace(self.workspace, lock=replace(self.workspace.lock, record=lock))
        names = {outcome.needed.model for outcome in self.outcomes if outcome.error is None}
        fill_model_prefixes(self.state, self.workspace, cloud, shelf_copies(locked, models=names))

    def _parts(self, made: Sequence[Manifest]) -> Mapping[str, Mapping[str, str]]:
        hashes = self.workspace.hashes
        return {
            manifest.model: hash_parts(manifest.model, self.workspace.models)
            for manifest in made
            if manifest.spec_hash == hashes[manifest.model]
        }


def _lock_images(
    state: Context, workspace: Workspace, cloud: Cloud | None, built: Built, *, here: bool
) -> bool:
    if not any(endpoint.image for endpoint in workspace.spec.endpoints.values()):
        return False
    # Imported here: only environments with images of their own need Docker's library.
    from tritonstack.workflows.builds.custom_images import lock_images  # noqa: PLC0415

    return lock_images(state, workspace, cloud, built, here=here)


def _explain(state: Context, workspace: Workspace, wanted: Sequence[NeededArtifact], *, here: bool) -> None:
    rows = [_explained(state, workspace, needed, here=here) for needed in wanted]
    images = [_explained_image(workspace, image) for image in endpoint_images(state.project, workspace.spec)]
    state.output.result(
        {"environment": workspace.spec.name, "artifacts": rows, "images": images},
        text="\n".join(row["words"] for row in (*images, *rows)) or "the environment serves no model",
    )


def _explained_image(workspace: Workspace, image: OwnImage) -> dict[str, Any]:
    locked = workspace.lock.record.images.get(image.folder, {}).get(image.kind)
    up_to_date = locked is not None and (locked.tag == image.tag or locked.is_held(image.tag))
    return {
        "image": image.tag,
        "build": not up_to_date,
        "words": f"image {image.tag}: {'up to date' if up_to_date else 'to build, unless it is there'}",
    }


def _explained(state: Context, workspace: Workspace, needed: NeededArtifact, *, here: bool) -> dict[str, Any]:
    venue = ByHand(needed.venue.hardware) if here else needed.venue
    reason = needed.reason
    if not reason and needed.locked and not needed.is_kept and isinstance(venue, ByHand):
        absent = local_manifest(state, needed.model, needed.locked.digest) is None
        reason = "its artifact is not whole on this machine" if absent else ""
    subject = f"{needed.model} for {needed.target}"
    digest = needed.locked.digest if needed.locked else None
    words = (
        f"{subject}: to build {venue.words}: {reason}{_driver_note(workspace, venue)}"
        if reason
        else f"{subject}: up to date, {str(digest)[:12]}{_broken(workspace, needed)}"
    )
    return {
        "model": needed.model,
        "targets": list(needed.targets),
        "build": bool(reason),
        "reason": reason,
        "where": venue.words,
        "digest": digest,
        "words": words,
    }


def _driver_note(workspace: Workspace, venue: Venue) -> str:
    """Name the driver that a release needs where AWS does not say which one the machine has."""
    release = workspace.spec.release
    least = least_driver(release, sure=False)
    if isinstance(venue, ByHand) or venue.hardware == "cpu" or least <= CUDA_12_DRIVER:
        return ""
    return f"; CUDA {release.cuda} needs NVIDIA driver {least} or newer, which the job checks first"


def _broken(workspace: Workspace, needed: NeededArtifact) -> str:
    """What is to be said of an entry that nobody would deploy, though what it names need not be built."""
    target = workspace.target_for(needed.model, needed.instance)
    if needed.locked is None or target is None:
        return ""
    placed = PlacedEntry(workspace.lock, ("models", needed.model, target), needed.locked)
    problem = broken_seal(placed)
    return f"; but {problem.message}: {problem.remedy}" if problem else ""


def _summary(outcome: Outcome) -> str:
    manifest = outcome.manifest
    if manifest is None:
        digest = outcome.needed.locked.digest[:12] if outcome.needed.locked else ""
        return f"{outcome.needed.model} {digest} for {outcome.needed.target}: up to date"
    latency = ", ".join(f"batch {report.batch} p50 {report.p50_ms:.1f} ms" for report in manifest.latency)
    return (
        f"{manifest.model} {manifest.digest[:12]} for {manifest.target}: "
        f"{manifest.archive_bytes / 1e6:.1f} MB, {_proof(manifest)}, {latency}"
    )


def _proof(manifest: Manifest) -> str:
    if manifest.generation is not None:
        return f"{manifest.generation.cases} texts answered alike {manifest.generation.times} times"
    if manifest.unverified:
        return f"unverified ({'; '.join(manifest.unverified)}; {WRITE_ANSWERS})"
    worst = min(report.min_cosine for report in manifest.parity)
    return f"cosine to the framework ≥ {worst:.6f}"
