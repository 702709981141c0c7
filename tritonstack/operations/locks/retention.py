"""Tag superseded artifacts in a bucket, so that a lifecycle rule expires them.

The rule (tritonstack/constructs/data/artifact_store.py) expires objects under `models/` with the tag
`superseded=true`. It knows nothing of locks, so the decision is made here. Tagged objects expire one or two
days after they are 30 days old, and can be restored for 30 more days (`artifact_versions.py`).

An artifact is tagged only if a version of this environment's lock has named it, and none of the last
`keep_locks` versions along the checked-out branch does. From that follows what is never marked:

- what no lock that git knows of has ever named: artifacts of a build whose lock is not merged yet;
- what a lock that lies in the folder names, whichever environment's: it may be about to be promoted or
  deployed;
- anything at all where git does not know the whole history (no git, a shallow clone) or where one of the
  versions cannot be read by this program: what cannot be read may name anything;
- what lies elsewhere: the shelves of multi-model endpoints (their callers name versions themselves),
  events, caches and records of builds. Images are not S3's; ECR keeps those that have a tag.

What is named again loses its mark: by a promotion at once, by a rollback or a revert with the next deploy;
before anything is marked, so that a command which is killed in between errs on the side of keeping. The
manifest is marked first and unmarked last. It speaks for itself alone: one that was written anew, by a build
or when it was brought back, has no mark, though what lies beside it still may.

Two who deploy different commits of one environment at once see different histories. Each marks only what
its own history has left behind, and unmarks what it names, so the later of the two has the last word on
what it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.naming import MODELS, SUPERSEDED_TAG
from tritonstack.operations.aws import Cloud, error_code
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.locks.checks import lock_names, readable_locks
from tritonstack.operations.locks.versions import LockHistory, LockVersion
from tritonstack.project.workspace import Workspace
from tritonstack.records.locks import Lock
from tritonstack.records.manifests import MANIFEST_NAME

_AT_ONCE = 16

Named = tuple[str, str]
"""A model, and the digest of an artifact of it."""


@dataclass(frozen=True)
class Keeping:
    """What is decided about artifacts."""

    kept: frozenset[Named]
    superseded: frozenset[Named]
    gap: str | None = None
    """Why nothing is called superseded, where that could not be decided."""


@dataclass(frozen=True)
class Marked:
    """What came of it."""

    marked: tuple[Named, ...]
    unmarked: tuple[Named, ...]
    gap: str | None = None


def mark_superseded(cloud: Cloud, workspace: Workspace) -> Marked:
    """Mark what the last locks of an environment no longer name, and unmark what they name again."""
    project, bucket = workspace.project, workspace.spec.artifact_bucket
    history = LockHistory(Checkout(project.root), workspace.lock.file)
    locks = readable_locks(project)
    unreadable = sorted(set(lock_names(project)) - set(locks))
    keeping = decide(
        history.versions,
        keep=workspace.spec.keep_locks,
        current=[workspace.lock.record, *(lock.record for lock in locks.values())],
        gap=f"the lock of {unreadable[0]} cannot be read" if unreadable else history.gap,
    )
    s3 = cloud.client("s3")
    there = _there(s3, bucket)
    unmarked = _each(s3, bucket, keeping.kept, there, _unmark)
    marked = _each(s3, bucket, keeping.superseded, there, _mark)
    return Marked(marked, unmarked, keeping.gap)


def keep_again(cloud: Cloud, bucket: str, named: Iterable[Named]) -> tuple[Named, ...]:
    """Take the mark from artifacts that a lock is about to name again, before the rule takes them."""
    s3 = cloud.client("s3")
    return _each(s3, bucket, named, _there(s3, bucket), _unmark)


def decide(
    versions: Iterable[LockVersion], *, keep: int, current: Iterable[Lock], gap: str | None
) -> Keeping:
    """What is kept and what superseded; versions come the latest first, `current` are all locks of today."""
    versions = list(versions)
    kept = {named for lock in current for named in _named(lock)}
    kept |= {named for version in versions[:keep] if version.lock for named in _named(version.lock)}
    if gap is not None:
        return Keeping(frozenset(kept), frozenset(), gap)
    left = {named for version in versions[keep:] if version.lock for named in _named(version.lock)}
    return Keeping(frozenset(kept), frozenset(left - kept))


def _named(lock: Lock) -> set[Named]:
    return {
        (model, artifact.digest) for model, targets in lock.models.items() for artifact in targets.values()
    }


def _there(s3: Any, bucket: str) -> dict[Named, list[str]]:
    """The artifacts of a bucket with their keys, the manifest's first."""
    found: dict[Named, list[str]] = {}
    try:
        pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=MODELS))
    except ClientError as error:
        if error_code(error) != "NoSuchBucket":
            raise
        return found  # before the first deploy there is nothing to keep
    for page in pages:
        for item in page.get("Contents", ()):
            model, _, rest = item["Key"].removeprefix(MODELS).partition("/")
            found.setdefault((model, rest.partition("/")[0]), []).append(item["Key"])
    for keys in found.values():
        keys.sort(key=lambda key: not key.endswith(f"/{MANIFEST_NAME}"))
    return found


def _each(
    s3: Any,
    bucket: str,
    wanted: Iterable[Named],
    there: Mapping[Named, list[str]],
    change: Callable[[Any, str, list[str]], bool],
) -> tuple[Named, ...]:
    """Those of which something has changed."""
    names = sorted(set(wanted) & set(there))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        changed = pool.map(lambda named: change(s3, bucket, there[named]), names)
        return tuple(named for named, did in zip(names, changed, strict=True) if did)


def _mark(s3: Any, bucket: str, keys: list[str]) -> bool:
    return sum(_tag(s3, bucket, key, superseded=True) for key in keys) > 0


def _unmark(s3: Any, bucket: str, keys: list[str]) -> bool:
    return sum(_tag(s3, bucket, key, superseded=False) for key in reversed(keys)) > 0


def _tag(s3: Any, bucket: str, key: str, *, superseded: bool) -> bool:
    """Give an object the mark or take it; tells whether that changed anything. Other tags stay."""
    tags = _tags(s3, bucket, key)
    if _is_marked(tags) == superseded:
        return False
    name, value = SUPERSEDED_TAG
    others = [tag for tag in tags if tag["Key"] != name]
    wanted = [*others, {"Key": name, "Value": value}] if superseded else others
    if wanted:
        s3.put_object_tagging(Bucket=bucket, Key=key, Tagging={"TagSet": wanted})
    else:
        s3.delete_object_tagging(Bucket=bucket, Key=key)
    return True


def _tags(s3: Any, bucket: str, key: str) -> list[dict[str, str]]:
    return list(s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"])


def _is_marked(tags: Iterable[Mapping[str, str]]) -> bool:
    return any((tag["Key"], tag["Value"]) == SUPERSEDED_TAG for tag in tags)
