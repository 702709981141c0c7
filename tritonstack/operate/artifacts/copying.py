"""Copy artifacts and images from one environment to another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from model_build.store.publishing import publish
from tritonstack.base.error_kinds import CommandInterruptedError
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import LockChange
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.files.records.manifests import ARCHIVE_NAME
from tritonstack.operate.artifacts.image_stores import ImageStore, image_store
from tritonstack.operate.artifacts.transfers import fetch_artifact, land_archive, read_source_manifest
from tritonstack.operate.shared.artifacts import StoredArtifact, is_published
from tritonstack.operate.shared.artifacts import has_bucket as bucket_exists
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.session import Session, Step, Steps

_COPIES_AT_ONCE = 4
RERUN = "rerun the command; it resumes here"


@dataclass(frozen=True)
class EnvironmentAccess:
    """One of the two environments, and its cloud."""

    workspace: Workspace
    cloud: Cloud

    @property
    def bucket(self) -> str:
        """Its artifact bucket."""
        return self.workspace.spec.artifact_bucket

    @property
    def images(self) -> ImageStore:
        """Its custom images."""
        return image_store(self.workspace.spec, self.cloud)

    def artifact(self, model: str, target: str, entry: LockedArtifact) -> StoredArtifact:
        """Return the location of an artifact of this side."""
        return StoredArtifact(self.cloud, self.bucket, model, target, entry)


@dataclass(frozen=True)
class Copied:
    """A copied entry, and how its integrity was proven."""

    item: LockChange
    summary: str


def has_bucket(side: EnvironmentAccess) -> bool:
    """Return True if the artifact bucket exists."""
    return bucket_exists(side.cloud, side.bucket)


def lacking(side: EnvironmentAccess, items: Sequence[LockChange]) -> list[LockChange]:
    """Return the entries that are missing in the bucket or registry of a side."""
    return [item for item in items if not _is_there(side, item)]


def bytes_to_copy(source: EnvironmentAccess, target: EnvironmentAccess, item: LockChange) -> int:
    """Return the bytes to copy for an entry that is missing entirely."""
    if isinstance(item.entry, LockedArtifact):
        return item.entry.archive_bytes
    if not has_bucket(target):
        return 0
    return target.images.bytes_from(source.images, item.entry.digest)


def copy_all(
    session: Session, source: EnvironmentAccess, target: EnvironmentAccess, items: Sequence[LockChange]
) -> list[Copied]:
    """Copy entries in parallel; an error is raised after all copies have ended."""
    copier = _Copier(session.project.artifacts_dir, source, target, threading.Event())
    pool = ThreadPoolExecutor(_COPIES_AT_ONCE)
    try:
        with session.reporter.steps() as steps:
            copies = [pool.submit(copier.copy, steps, item) for item in items]
            return [copy.result() for copy in copies]
    except KeyboardInterrupt:
        copier.stopped.set()
        raise CommandInterruptedError(
            "interrupted; no lock was changed, and completed copies are kept", remedy=RERUN
        ) from None
    finally:
        pool.shutdown(cancel_futures=copier.stopped.is_set())


def _is_there(side: EnvironmentAccess, item: LockChange) -> bool:
    if isinstance(item.entry, LockedArtifact):
        return is_published(side.cloud, bucket=side.bucket, model=item.name, artifact=item.entry)
    return side.images.digest(item.entry.tag) == item.entry.digest


@dataclass(frozen=True)
class _Copier:
    store: Path
    """The artifacts on this machine, through which they are copied."""
    source: EnvironmentAccess
    target: EnvironmentAccess
    stopped: threading.Event

    def copy(self, steps: Steps, item: LockChange) -> Copied:
        with steps.step(f"copying {item.describe()}", label=item.name) as step:
            try:
                step.detail = self._copied(step, item)
            except BaseException:
                step.failed = True
                raise
            return Copied(item, step.detail)

    def _copied(self, step: Step, item: LockChange) -> str:
        if isinstance(item.entry, LockedArtifact):
            return self._copy_artifact(step, self.source.artifact(item.name, item.key, item.entry))
        counter = partial(self._counter, step, "sent")
        return self.target.images.copy(
            self.source.images, item.entry, counter=counter, sleep=self.stopped.wait
        )

    def _copy_artifact(self, step: Step, origin: StoredArtifact) -> str:
        size, target = origin.entry.archive_bytes, self.target
        manifest = read_source_manifest(origin)
        counted = self._counter(step, "fetched", size)
        folder = fetch_artifact(origin, manifest, store=self.store, on_bytes=counted, sleep=self.stopped.wait)
        landing = target.artifact(origin.model, origin.target, origin.entry)
        proof = land_archive(landing, folder / ARCHIVE_NAME, on_bytes=self._counter(step, "sent", size))
        publish(artifact_dir=folder, bucket=target.bucket, s3_client=target.cloud.client("s3"))
        return f"{size / 1e6:.1f} MB, verified: {proof}"

    def _counter(self, step: Step, title: str, total: int) -> Callable[[int], None]:
        """Return a callback that reports the progress of a copy, and aborts it after an interrupt."""
        lock, done = threading.Lock(), 0

        def count(size: int) -> None:
            nonlocal done
            if self.stopped.is_set():
                raise CommandInterruptedError("interrupted", remedy=RERUN)
            with lock:
                done += size
            step.update(f"{title} {done / 1e6:.1f} of {total / 1e6:.1f} MB")

        return count
