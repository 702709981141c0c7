"""Tag superseded artifacts in a bucket, so that a lifecycle rule expires them.

The rule (tritonstack/constructs/data/buckets.py) expires objects under `models/` with the tag
`superseded=true`. It knows nothing of locks and endpoints, so the decision is made here. Tagged objects
expire one or two days after they are 30 days old, and can be restored for 30 more days
(`restoring.py`).

An artifact is tagged only if a version of this environment's lock has named it, and none of the last
`keep_locks` versions along the checked-out branch does. Never tagged:

- artifacts that no lock in git has named, such as those of builds whose lock is not merged yet;
- artifacts named by any environment's current lock file, which may be promoted or deployed next;
- artifacts that a live endpoint's models name: after a rollback, no recent lock may name what it runs;
- artifacts that a retained model names: `rollback` may return to it;
- anything if the history is incomplete (no git, a shallow clone) or contains an unreadable version, or if
  what an endpoint runs is unknown;
- other objects: model prefixes of multi-model endpoints (callers name the versions), events, caches, and
  build records. Images are in ECR: see `image_retention.py`.

An artifact that is named again is untagged: by a promotion immediately, by a rollback or revert when the next
deployment begins. Tags are set when a deployment ends and its endpoints run. Untagging comes first, so an
interrupted command keeps too much rather than too little. The manifest is tagged first and untagged last. A
manifest that was rewritten by a build or a restore has no tag, though its archive may still have one.

Two people who deploy different commits of one environment see different histories. Each tags only what its
own history has superseded and untags what it names, so the later deployment decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tritonstack.base import naming
from tritonstack.base.naming import MODELS, SUPERSEDED_TAG
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.project.custom_images import SERVING
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import Lock
from tritonstack.files.records.manifests import MANIFEST_NAME
from tritonstack.operate.destroy.retained import RunningEndpoint, tagged_models
from tritonstack.operate.locks.checks import lock_names, readable_locks
from tritonstack.operate.locks.versions import LockHistory, LockVersion
from tritonstack.operate.shared.aws import Cloud, in_parallel, list_if_present
from tritonstack.operate.shared.checkout import Checkout

_AT_ONCE = 16

Named = tuple[str, str]
"""A model and its artifact's digest, or an image's folder and digest."""


@dataclass(frozen=True)
class RetentionPlan:
    """The decision for a set of artifacts."""

    kept: frozenset[Named]
    superseded: frozenset[Named]
    gap: str | None = None
    """Why nothing is superseded, if the history or what runs is not completely known."""


@dataclass(frozen=True)
class TaggingResult:
    """The result of tagging."""

    marked: tuple[Named, ...]
    gap: str | None = None


def mark_superseded(cloud: Cloud, workspace: Workspace, live: Sequence[RunningEndpoint]) -> TaggingResult:
    """Tag artifacts that neither an environment's last locks nor its endpoints name; untag the others."""
    bucket = workspace.spec.artifact_bucket
    _, retained = tagged_models(cloud, workspace.spec.base)
    data = {url for endpoint in live for url in endpoint.data} | retained
    keeping = plan_retention(workspace, live, running=_running(data, bucket))
    s3 = cloud.client("s3")
    existing = _keys_by_artifact(s3, bucket)
    _each(s3, bucket, keeping.kept, existing, _unmark)
    marked = _each(s3, bucket, keeping.superseded, existing, _mark)
    return TaggingResult(marked, keeping.gap)


def plan_retention(
    workspace: Workspace,
    live: Sequence[RunningEndpoint],
    *,
    running: Iterable[Named],
    names: Callable[[Lock], set[Named]] | None = None,
) -> RetentionPlan:
    """Decide what to keep by all locks and what runs; `names` returns what a lock names, or artifacts."""
    project = workspace.project
    history = LockHistory(Checkout(project.root), workspace.lock.file)
    locks = readable_locks(ProjectFiles(project))
    unreadable = sorted(set(lock_names(project)) - set(locks))
    return decide(
        history.versions,
        keep=workspace.spec.keep_locks,
        current=[workspace.lock.record, *(lock.record for lock in locks.values())],
        running=running,
        gap=_unknown(live) or (f"the lock of {unreadable[0]} cannot be read" if unreadable else history.gap),
        names=names,
    )


def _running(data: Iterable[str], bucket: str) -> set[Named]:
    """Return the artifacts that the data URLs of models name."""
    before = f"s3://{bucket}/{MODELS}"
    keys = [url.removeprefix(before) for url in data if url.startswith(before)]
    return {(model, rest.partition("/")[0]) for model, _, rest in (key.partition("/") for key in keys)}


def _unknown(live: Sequence[RunningEndpoint]) -> str | None:
    return next((f"{endpoint.name} {endpoint.missing}" for endpoint in live if endpoint.missing), None)


def unmark_superseded(cloud: Cloud, bucket: str, named: Iterable[Named]) -> tuple[Named, ...]:
    """Untag artifacts that a lock is about to name again, before the lifecycle rule deletes them."""
    s3 = cloud.client("s3")
    return _each(s3, bucket, named, _keys_by_artifact(s3, bucket), _unmark)


def decide(
    versions: Iterable[LockVersion],
    *,
    keep: int,
    current: Iterable[Lock],
    running: Iterable[Named] = (),
    gap: str | None,
    names: Callable[[Lock], set[Named]] | None = None,
) -> RetentionPlan:
    """Decide what to keep.

    `versions` are latest first, `current` are all current locks, `running` is what endpoints serve.
    """
    versions, names = list(versions), names or named_artifacts
    kept = {*running, *(named for lock in current for named in names(lock))}
    kept |= {named for version in versions[:keep] if version.lock for named in names(version.lock)}
    if gap is not None:
        return RetentionPlan(frozenset(kept), frozenset(), gap)
    earlier = {named for version in versions[keep:] if version.lock for named in names(version.lock)}
    return RetentionPlan(frozenset(kept), frozenset(earlier - kept))


def named_artifacts(lock: Lock) -> set[Named]:
    """Return the artifacts that a lock names."""
    return {
        (model, artifact.digest) for model, targets in lock.models.items() for artifact in targets.values()
    }


def _keys_by_artifact(s3: Any, bucket: str) -> dict[Named, list[str]]:
    """Return the artifacts of a bucket with their keys, the manifest's first."""
    by_artifact: dict[Named, list[str]] = {}
    # Without a bucket, nothing is deployed yet.
    for item in list_if_present(s3, "list_objects_v2", "Contents", Bucket=bucket, Prefix=MODELS):
        model, _, rest = item["Key"].removeprefix(MODELS).partition("/")
        by_artifact.setdefault((model, rest.partition("/")[0]), []).append(item["Key"])
    for keys in by_artifact.values():
        keys.sort(key=lambda key: not key.endswith(f"/{MANIFEST_NAME}"))
    return by_artifact


def _each(
    s3: Any,
    bucket: str,
    selected: Iterable[Named],
    existing: Mapping[Named, list[str]],
    change: Callable[[Any, str, list[str]], bool],
) -> tuple[Named, ...]:
    """Return those that changed."""
    names = sorted(set(selected) & set(existing))
    changed = in_parallel(lambda named: change(s3, bucket, existing[named]), names, at_once=_AT_ONCE)
    return tuple(named for named, did in zip(names, changed, strict=True) if did)


def _mark(s3: Any, bucket: str, keys: list[str]) -> bool:
    return sum(_tag(s3, bucket, key, superseded=True) for key in keys) > 0


def _unmark(s3: Any, bucket: str, keys: list[str]) -> bool:
    return sum(_tag(s3, bucket, key, superseded=False) for key in reversed(keys)) > 0


def _tag(s3: Any, bucket: str, key: str, *, superseded: bool) -> bool:
    """Set or remove the tag; return whether it changed. Keep other tags."""
    tags = _tags(s3, bucket, key)
    if _is_marked(tags) == superseded:
        return False
    name, value = SUPERSEDED_TAG
    others = [tag for tag in tags if tag["Key"] != name]
    updated = [*others, {"Key": name, "Value": value}] if superseded else others
    if updated:
        s3.put_object_tagging(Bucket=bucket, Key=key, Tagging={"TagSet": updated})
    else:
        s3.delete_object_tagging(Bucket=bucket, Key=key)
    return True


def _tags(s3: Any, bucket: str, key: str) -> list[dict[str, str]]:
    return list(s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"])


def _is_marked(tags: Iterable[Mapping[str, str]]) -> bool:
    return any((tag["Key"], tag["Value"]) == SUPERSEDED_TAG for tag in tags)


# ECR's lifecycle rules know nothing of locks and endpoints, and an expired image cannot be restored. So an
# image is deleted here, by its digest, and only if
#
# - a version of this environment's lock has named it, and none of the last `keep_locks` versions does;
# - no current lock of any environment names it;
# - no model that exists names it: live endpoints', and retained ones to which `rollback` may return;
# - it was pushed more than 30 days ago.
#
# Nothing is deleted if the history is incomplete, or if what an endpoint runs is unknown.


_AGE = timedelta(days=30)
_IDS_PER_CALL = 100
"""How many images ECR deletes per call."""


def delete_superseded_images(
    cloud: Cloud, workspace: Workspace, live: Sequence[RunningEndpoint], *, now: datetime
) -> list[Named]:
    """Delete images that no recent lock and no model names; return their folders and digests."""
    # running=(): a running image has no folder here; its digest is subtracted below.
    plan = plan_retention(workspace, live, running=(), names=named_images)
    if not plan.superseded:
        return []
    base = workspace.spec.base
    retained, _ = tagged_models(cloud, base)
    used = {image for endpoint in live for image in endpoint.images} | retained
    kept = {digest for _, digest in plan.kept} | {image.rpartition("@")[2] for image in used}
    digests = {digest for _, digest in plan.superseded} - kept
    # All folders' images are in one repository: a folder is a prefix of tags.
    deleted = _delete(cloud, naming.image_repository_name(base, SERVING), digests, before=now - _AGE)
    return sorted(named for named in plan.superseded if named[1] in deleted)


def named_images(lock: Lock) -> set[Named]:
    """Return the images that a lock names: folders and digests."""
    return {(folder, image.digest) for folder, kinds in lock.images.items() for image in kinds.values()}


def _delete(cloud: Cloud, repository: str, digests: Collection[str], *, before: datetime) -> list[str]:
    ecr = cloud.client("ecr")
    images = list_if_present(ecr, "describe_images", "imageDetails", repositoryName=repository)
    old = [image["imageDigest"] for image in images if image["imagePushedAt"] < before]
    ids = [{"imageDigest": digest} for digest in digests if digest in old]
    answers = [
        ecr.batch_delete_image(repositoryName=repository, imageIds=ids[start : start + _IDS_PER_CALL])
        for start in range(0, len(ids), _IDS_PER_CALL)
    ]
    return sorted({image["imageDigest"] for answer in answers for image in answer["imageIds"]})
