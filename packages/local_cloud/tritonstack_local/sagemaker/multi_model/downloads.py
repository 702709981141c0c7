"""Download and unpack models on an instance's volume; remove them when space runs short."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonstack.base.errors import TritonstackError
from tritonstack_local.sagemaker.errors import invalid_invocation
from tritonstack_local.sagemaker.multi_model.container import ModelCapacityError, name_of
from tritonstack_local.sagemaker.servers import artifacts
from tritonstack_local.sagemaker.servers.artifacts import ArtifactError, Checkpoint, MissingArtifactError
from tritonstack_local.sagemaker.servers.limits import DISK_RESERVE_BYTES

CONTAINER = "model"


@dataclass(frozen=True)
class DownloadFolders:
    """The S3 prefix of archives and the folder to unpack them to."""

    s3: Any
    url: str
    folder: Path

    def url_of(self, target: str) -> str:
        """Return the URL of a model's archive."""
        return f"{self.url.rstrip('/')}/{target}"


@dataclass
class _Kept:
    """A model's folder, pinned while the server may read it."""

    pinned: bool = True
    size: int = 0


@dataclass(frozen=True)
class _Leaving:
    """A folder that is being deleted."""

    kept: _Kept
    folder: Path


class Downloads:
    """Downloads models to the volume; evicts the least recently used ones that are not pinned.

    A model on the volume is not fetched from S3 again, even if its object changes or is deleted.
    """

    def __init__(self, *, folders: DownloadFolders, volume_bytes: int | None) -> None:
        self._folders = folders
        self._volume_bytes = volume_bytes
        self._kept: dict[str, _Kept] = {}  # in the order of use
        self._used = 0
        self._removed = 0
        self._lock = threading.Lock()

    def pin(self, target: str) -> bool:
        """Pin a model if it is on the volume; return whether it is."""
        with self._lock:
            kept = self._kept.pop(target, None)
            if kept is None:
                return False
            kept.pinned = True
            self._kept[target] = kept
            return True

    def let_go(self, target: str) -> None:
        """Unpin a model; it is kept until its space is needed."""
        with self._lock:
            kept = self._kept.get(target)
            if kept is not None:
                kept.pinned = False

    def size_of(self, target: str) -> int:
        """Return a model's size on the volume in bytes."""
        return self._kept[target].size

    def remove(self, target: str) -> None:
        """Delete a model from the volume, even if incomplete."""
        with self._lock:
            leaving = self._evict(target) if target in self._kept else None
        if leaving is not None:
            self._delete(leaving)

    def fetch(self, target: str, *, checkpoint: Checkpoint, make_room: Callable[[], bool]) -> None:
        """Download a model and pin it. `make_room` unpins another one if possible.

        Raises ModelCapacityError if the volume is full of pinned models, and ServiceError for a missing or
        invalid archive.
        """
        kept = _Kept()
        with self._lock:
            self._kept[target] = kept
        try:
            self._download(target, _Claim(self, kept, make_room), checkpoint)
        except BaseException:
            self.remove(target)
            raise

    def _download(self, target: str, space: _Claim, checkpoint: Checkpoint) -> None:
        url, folder = self._folders.url_of(target), self._folder(target) / "model"
        try:
            checkpoint()
            folder.mkdir(parents=True, exist_ok=True)
            artifacts.open_folders(folder.parent)
            artifacts.fetch(
                self._folders.s3, url=url, to=folder, container=CONTAINER, checkpoint=checkpoint, space=space
            )
        except MissingArtifactError as error:
            raise _not_downloaded(url) from error
        except ArtifactError as error:
            raise invalid_invocation(error.message) from error

    def _reserve(self, kept: _Kept, size: int) -> _Leaving | None:
        """Reserve space, or return a folder to delete for it, or raise."""
        with self._lock:
            if self._volume_bytes is not None and kept.size + size > self._volume_bytes:
                raise artifacts.does_not_fit(self._volume_bytes)
            if self._has_room(size):
                self._used += size
                kept.size += size
                return None
            for target, other in self._kept.items():
                if not other.pinned:
                    return self._evict(target)
        raise ModelCapacityError(_volume_full())

    def _has_room(self, size: int) -> bool:
        if self._volume_bytes is not None and self._used + size > self._volume_bytes:
            return False
        return shutil.disk_usage(self._folders.folder).free - size > DISK_RESERVE_BYTES

    def _evict(self, target: str) -> _Leaving:
        """Rename a folder, so that the model can be downloaded again at once."""
        folder = self._folder(target)
        self._removed += 1
        aside = folder.with_name(f"{folder.name}.{self._removed}")
        with contextlib.suppress(FileNotFoundError):  # it was not downloaded
            folder.rename(aside)
        return _Leaving(self._kept.pop(target), aside)

    def _delete(self, leaving: _Leaving) -> None:
        shutil.rmtree(leaving.folder, ignore_errors=True)
        self._release(leaving.kept, leaving.kept.size)

    def _release(self, kept: _Kept, size: int) -> None:
        with self._lock:
            self._used -= size
            kept.size -= size

    def _folder(self, target: str) -> Path:
        return self._folders.folder / name_of(target)


class _Claim:
    """The volume space of one download."""

    def __init__(self, downloads: Downloads, kept: _Kept, make_room: Callable[[], bool]) -> None:
        self._downloads = downloads
        self._kept = kept
        self._make_room = make_room

    def take(self, size: int) -> None:
        """Reserve bytes, from other models if necessary."""
        while True:
            try:
                leaving = self._downloads._reserve(self._kept, size)
            except ModelCapacityError:
                if not self._make_room():
                    raise
                continue
            if leaving is None:
                return
            self._downloads._delete(leaving)

    def release(self, size: int) -> None:
        """Release bytes."""
        self._downloads._release(self._kept, size)


def _not_downloaded(url: str) -> TritonstackError:
    bucket, key = artifacts.bucket_and_key(url)
    return invalid_invocation(
        f"Failed to download model data(bucket: {bucket}, key: {key}). Please ensure that there is "
        "an object located at the URL and that the role passed to CreateModel has permissions to "
        "download the model."
    )


def _volume_full() -> TritonstackError:
    return invalid_invocation(
        "Failed to download model data: no space is left on the instance's volume, nor models to delete."
    )
