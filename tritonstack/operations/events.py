"""Events of an environment, written to its artifact bucket and read from there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from botocore.exceptions import ClientError

from tritonstack.base.naming import EVENTS
from tritonstack.operations.aws import Cloud, error_code
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.revisions import Revision, build_revision_of, revision_of
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event, EventKind, TouchedArtifact, TouchedImage
from tritonstack.records.json_records import parse_record
from tritonstack.records.locks import Built, ImageKind
from tritonstack.records.manifests import Manifest

_READS_AT_ONCE = 8


def now() -> str:
    """This moment, as events and locks write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def built_now(workspace: Workspace) -> Built:
    """Who builds now, and from which commit."""
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
    """Something that happens now, from this checkout, to what endpoints serve.

    `revision`: that of the files that were read; by default the present one.
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
    """That artifacts were built and published, and for which endpoints."""
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


def touched(manifest: Manifest) -> TouchedArtifact:
    """An artifact as events name it."""
    return TouchedArtifact(model=manifest.model, target=manifest.target, digest=manifest.digest)


def served_artifacts(workspace: Workspace, endpoints: Sequence[str]) -> tuple[TouchedArtifact, ...]:
    """The artifacts that endpoints serve by the environment's lock, each once."""
    found = {
        TouchedArtifact(model=served.model, target=target, digest=artifact.digest)
        for name in endpoints
        for served in workspace.serves(name)
        if (target := workspace.target_for(served.model, served.instance))
        if (artifact := workspace.artifact_for(served.model, served.instance))
    }
    return tuple(sorted(found, key=lambda item: (item.model, item.target)))


def run_images(workspace: Workspace, endpoints: Sequence[str]) -> tuple[TouchedImage, ...]:
    """The images of the project's own that endpoints run by the environment's lock, each once."""
    found = set[TouchedImage]()
    for name in endpoints:
        endpoint = workspace.spec.endpoints[name]
        for variant in endpoint.variants:
            locked = workspace.image_for(name, variant.instance)
            if endpoint.image is not None and locked is not None:
                kind: ImageKind = "gpu" if variant.instance.gpus else "cpu"
                found.add(TouchedImage(folder=endpoint.image, kind=kind, digest=locked.digest))
    return tuple(sorted(found, key=lambda item: (item.folder, item.kind)))


def record_event(cloud: Cloud, bucket: str, event: Event) -> None:
    """Write an event down."""
    cloud.client("s3").put_object(
        Bucket=bucket, Key=event.key, Body=event.to_json().encode(), ContentType="application/json"
    )


def read_events(
    cloud: Cloud, bucket: str, *, kinds: Collection[EventKind] = (), since: str | None = None
) -> list[Event]:
    """The events of an environment, the earliest first; none where there is no bucket.

    Of some kinds, or from a moment on: an environment that lives for years has thousands, each to be fetched.
    """
    return _read(cloud, bucket, _keys(cloud, bucket, kinds=kinds, since=since))


def latest_events(cloud: Cloud, bucket: str, *kinds: EventKind) -> Iterator[Event]:
    """The events of some kinds, the latest first, fetched as far as they are asked for."""
    keys = _keys(cloud, bucket, kinds=kinds)[::-1]
    for begin in range(0, len(keys), _READS_AT_ONCE):
        yield from _read(cloud, bucket, keys[begin : begin + _READS_AT_ONCE])


def latest_of_each(events: Iterable[Event], endpoints: Collection[str]) -> dict[str, Event]:
    """The first event that names each endpoint; of `events`, the latest first, no more is read than that
    takes.
    """
    found: dict[str, Event] = {}
    for event in events:
        for name in event.endpoints:
            if name in endpoints:
                found.setdefault(name, event)
        if len(found) == len(endpoints):
            break
    return found


def _keys(
    cloud: Cloud, bucket: str, *, kinds: Collection[EventKind] = (), since: str | None = None
) -> list[str]:
    """Where events lie, sorted by time; a key tells when its event was and of what kind."""
    s3, marks = cloud.client("s3"), tuple(f"Z-{kind}-" for kind in kinds)
    # A second sorts before its fractions only without the Z that ends it.
    first = {"StartAfter": f"{EVENTS}{since.removesuffix('Z')}"} if since else {}
    try:
        pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=EVENTS, **first))
    except ClientError as error:
        if error_code(error) == "NoSuchBucket":
            return []
        raise
    keys = sorted(item["Key"] for page in pages for item in page.get("Contents", ()))
    return [key for key in keys if not marks or any(mark in key for mark in marks)]


def _read(cloud: Cloud, bucket: str, keys: Sequence[str]) -> list[Event]:
    s3 = cloud.client("s3")

    def read(key: str) -> Event:
        return _parsed(s3.get_object(Bucket=bucket, Key=key)["Body"].read(), f"s3://{bucket}/{key}")

    pool = ThreadPoolExecutor(_READS_AT_ONCE)
    try:
        return list(pool.map(read, keys))
    finally:
        pool.shutdown(cancel_futures=True)  # after one that cannot be read, the rest is not fetched


def _parsed(body: bytes, origin: str) -> Event:
    return parse_record(
        Event,
        body,
        origin=origin,
        fault="is no event",
        remedy="events are written by `tritonstack` alone: delete this one if it was written by hand",
    )
