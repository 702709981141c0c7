"""Write an environment's events to its artifact bucket, and read them."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError, aws_error_code
from tritonstack.base.files import parse_json
from tritonstack.base.naming import EVENTS
from tritonstack.facts.conditional_writes import CONFLICT_CODES, INTERFERED_CODES
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event, EventKind, TouchedArtifact, TouchedImage
from tritonstack.files.records.locks import (
    Built,
    ImageKind,
    LockedEntry,
    LockedImage,
    Promoted,
    RolledBack,
    image_kind,
)
from tritonstack.files.records.manifests import Manifest, parse_record
from tritonstack.operate.shared.aws import Cloud, list_if_present
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.revisions import Revision, build_revision_of, revision_of

_READS_AT_ONCE = 8
_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
UNREADABLE_LOAD_TEST = "its load test is of another version of tritonstack, and ignored"
EventCache = MutableMapping[str, Event]
"""Events by address. An event never changes: its key holds its checksum."""


def now() -> str:
    """Return the current time in the format of events and locks."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def built_now(workspace: Workspace) -> Built:
    """Return the user and commit of a build."""
    checkout, revision = Checkout(workspace.project.root), build_revision_of(workspace)
    return Built(by=checkout.actor(), at=now(), commit=revision.text, uncommitted=revision.recorded)


def new_event(
    kind: EventKind,
    workspace: Workspace,
    *,
    endpoints: Sequence[str],
    note: str = "",
    revision: Revision | None = None,
) -> Event:
    """Create an event for the current time and checkout.

    `revision` is the revision of the files that were read; default: the current one.
    """
    revision = revision or revision_of(workspace)
    return Event(
        kind=kind,
        environment=workspace.spec.name,
        at=now(),
        by=Checkout(workspace.project.root).actor(),
        commit=revision.text,
        uncommitted=revision.recorded,
        endpoints=tuple(endpoints),
        artifacts=served_artifacts(workspace, endpoints),
        images=run_images(workspace, endpoints),
        note=note,
    )


def built_event(workspace: Workspace, built: Built, artifacts: Sequence[TouchedArtifact]) -> Event:
    """Create a build event for published artifacts and their endpoints."""
    models = {artifact.model for artifact in artifacts}
    serving = [
        name
        for name in workspace.spec.endpoints
        if models & {served.model for served in workspace.serves(name)}
    ]
    return Event(
        kind="built",
        environment=workspace.spec.name,
        at=built.at,
        by=built.by,
        commit=built.commit,
        uncommitted=built.uncommitted,
        endpoints=tuple(serving),
        artifacts=tuple(artifacts),
    )


def lock_event(
    kind: EventKind,
    workspace: Workspace,
    record: Built | Promoted | RolledBack,
    *,
    endpoints: Iterable[str],
    entries: Iterable[tuple[str, str, LockedEntry]],
    note: str = "",
) -> Event:
    """Return the event of changed lock entries (name, key, and entry).

    `record` is what the lock says of the change, so a repeated write has the same key.
    """
    entries = list(entries)
    return Event(
        kind=kind,
        environment=workspace.spec.name,
        at=record.at,
        by=record.by,
        commit=record.commit,
        uncommitted=record.uncommitted,
        endpoints=tuple(endpoints),
        artifacts=tuple(
            TouchedArtifact(model=name, target=key, digest=entry.digest)
            for name, key, entry in entries
            if not isinstance(entry, LockedImage)
        ),
        images=tuple(
            TouchedImage(folder=name, kind=image_kind(key), digest=entry.digest)
            for name, key, entry in entries
            if isinstance(entry, LockedImage)
        ),
        note=note,
    )


def touched(manifest: Manifest) -> TouchedArtifact:
    """Return an artifact's record in events."""
    return TouchedArtifact(model=manifest.model, target=manifest.target, digest=manifest.digest)


def served_artifacts(workspace: Workspace, endpoints: Sequence[str]) -> tuple[TouchedArtifact, ...]:
    """Return the artifacts that endpoints serve according to the lock, without duplicates."""
    artifacts = {
        TouchedArtifact(model=served.model, target=target, digest=artifact.digest)
        for name in endpoints
        for served in workspace.serves(name)
        if (target := workspace.target_for(served.model, served.instance))
        if (artifact := workspace.artifact_for(served.model, served.instance))
    }
    return tuple(sorted(artifacts, key=lambda item: (item.model, item.target)))


def run_images(workspace: Workspace, endpoints: Sequence[str]) -> tuple[TouchedImage, ...]:
    """Return the custom images that endpoints run according to the lock, without duplicates."""
    images = set[TouchedImage]()
    for name in endpoints:
        endpoint = workspace.spec.endpoints[name]
        for variant in endpoint.variants:
            locked = workspace.image_for(name, variant.instance)
            if endpoint.image is not None and locked is not None:
                kind: ImageKind = "gpu" if variant.instance.gpus else "cpu"
                images.add(TouchedImage(folder=endpoint.image, kind=kind, digest=locked.digest))
    return tuple(sorted(images, key=lambda item: (item.folder, item.kind)))


def record_event(cloud: Cloud, bucket: str, event: Event) -> None:
    """Write an event to the bucket, once: its key holds its checksum, so another writer wrote the same."""
    for pause in (*_PAUSES_S, None):
        try:
            cloud.client("s3").put_object(
                Bucket=bucket,
                Key=event.key,
                Body=event.to_json().encode(),
                ContentType="application/json",
                IfNoneMatch="*",
            )
        except ClientError as error:
            code = aws_error_code(error)
            if code in CONFLICT_CODES:
                return
            if pause is None or code not in INTERFERED_CODES:
                raise
            time.sleep(pause)
        else:
            return


def read_events(
    cloud: Cloud,
    bucket: str,
    *,
    kinds: Collection[EventKind] = (),
    since: str | None = None,
    cache: EventCache | None = None,
) -> list[Event]:
    """Return the environment's events, oldest first; none without a bucket.

    Filter by kind or start time: old environments have thousands of events, each a separate object.
    """
    return _read(cloud, bucket, _keys(cloud, bucket, kinds=kinds, since=since), cache)


def latest_events(
    cloud: Cloud, bucket: str, *kinds: EventKind, cache: EventCache | None = None
) -> Iterator[Event]:
    """Yield events of some kinds, latest first, fetched on demand."""
    keys = _keys(cloud, bucket, kinds=kinds)[::-1]
    for begin in range(0, len(keys), _READS_AT_ONCE):
        yield from _read(cloud, bucket, keys[begin : begin + _READS_AT_ONCE], cache)


def latest_of_each(events: Iterable[Event], endpoints: Collection[str]) -> dict[str, Event]:
    """Return the first event per endpoint in `events` (latest first), reading no further than needed."""
    latest: dict[str, Event] = {}
    for event in events:
        for name in event.endpoints:
            if name in endpoints:
                latest.setdefault(name, event)
        if len(latest) == len(endpoints):
            break
    return latest


def _keys(
    cloud: Cloud, bucket: str, *, kinds: Collection[EventKind] = (), since: str | None = None
) -> list[str]:
    """Return event keys, sorted by time; a key holds its event's time and kind."""
    s3, marks = cloud.client("s3"), tuple(f"Z-{kind}-" for kind in kinds)
    # Times with fractions sort correctly only without the trailing Z.
    first = {"StartAfter": f"{EVENTS}{since.removesuffix('Z')}"} if since else {}
    objects = list_if_present(s3, "list_objects_v2", "Contents", Bucket=bucket, Prefix=EVENTS, **first)
    keys = sorted(item["Key"] for item in objects)
    return [key for key in keys if not marks or any(mark in key for mark in marks)]


def _read(cloud: Cloud, bucket: str, keys: Sequence[str], cache: EventCache | None) -> list[Event]:
    s3 = cloud.client("s3")
    cached: EventCache = {} if cache is None else cache

    def read(key: str) -> Event:
        origin = f"s3://{bucket}/{key}"
        if origin not in cached:
            cached[origin] = _parsed(s3.get_object(Bucket=bucket, Key=key)["Body"].read(), origin)
        return cached[origin]

    pool = ThreadPoolExecutor(_READS_AT_ONCE)
    try:
        return list(pool.map(read, keys))
    finally:
        pool.shutdown(cancel_futures=True)  # stop fetching after the first unreadable event


def _parsed(body: bytes, origin: str) -> Event:
    try:
        return parse_record(
            Event,
            body,
            origin=origin,
            failure="is not a valid event",
            remedy="only `tritonstack` writes events; delete this object if it was created manually",
        )
    except TritonstackError:
        if (event := _without_load_test(body)) is None:
            raise
        return event


def _without_load_test(body: bytes) -> Event | None:
    """Return an event without its load test, if that is all that this version cannot read.

    Load tests get fields over time, and events are immutable.
    """
    try:
        content = parse_json(body)
        del content["load_test"]
        event = Event.model_validate_json(json.dumps(content))
    except (ValueError, KeyError, TypeError):  # ValidationError is a ValueError
        return None
    return event.model_copy(update={"note": "; ".join(filter(None, (event.note, UNREADABLE_LOAD_TEST)))})
