"""Download and unpack models on an instance's volume; remove them when space runs short."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonstack.base.errors import TritonstackError
from tritonstack_local.sagemaker.dependencies import DISK_RESERVE_BYTES
from tritonstack_local.sagemaker.rules import invalid_invocation
from tritonstack_local.sagemaker.servers import artifacts
from tritonstack_local.sagemaker.servers.artifacts import ArtifactError, Checkpoint, MissingArtifactError

CONTAINER = "model"


def name_of(target: str) -> str:
    """Return a model's name in the server: an opaque string, as in SageMaker."""
    return hashlib.sha256(target.encode()).hexdigest()[:32]


@dataclass
class _StoredModel:
    """A model's folder, pinned while the server may read it."""

    pinned: bool = True
    size: int = 0


class Downloads:
    """Downloads models to the volume; deletes the least recently used ones that are not pinned.

    A model on the volume is not fetched from S3 again, even if its object changes or is deleted.
    """

    def __init__(self, *, s3: Any, url: str, folder: Path, volume_bytes: int | None) -> None:
        """Download what is below an S3 URL to a folder."""
        self._s3 = s3
        self._url = url.rstrip("/")
        self._folder = folder
        self._volume_bytes = volume_bytes
        self._models: dict[str, _StoredModel] = {}  # in the order of use
        self._lock = threading.RLock()

    def pin(self, target: str) -> bool:
        """Pin a model if it is on the volume; return whether it is."""
        with self._lock:
            model = self._models.pop(target, None)
            if model is None:
                return False
            model.pinned = True
            self._models[target] = model
            return True

    def let_go(self, target: str) -> None:
        """Unpin a model; it is kept until its space is needed."""
        with self._lock:
            if target in self._models:
                self._models[target].pinned = False

    def size_of(self, target: str) -> int:
        """Return a model's size on the volume in bytes."""
        return self._models[target].size

    def remove(self, target: str) -> None:
        """Delete a model from the volume, even if incomplete."""
        with self._lock:
            if self._models.pop(target, None) is not None:
                shutil.rmtree(self._folder_of(target), ignore_errors=True)

    def fetch(self, target: str, *, checkpoint: Checkpoint, make_room: Callable[[], bool]) -> None:
        """Download a model and pin it. `make_room` waits until another one is unpinned; False if none can be.

        Raises ServiceError for a full volume, and for a missing or invalid archive.
        """
        model = _StoredModel()
        with self._lock:
            self._models[target] = model
        try:
            self._download(target, _Claim(self, model, make_room), checkpoint)
        except BaseException:
            self.remove(target)
            raise

    def reserve(self, model: _StoredModel, size: int) -> bool:
        """Reserve space, of models that are not pinned if necessary; return whether there is enough."""
        with self._lock:
            if self._volume_bytes is not None and model.size + size > self._volume_bytes:
                raise artifacts.does_not_fit(self._volume_bytes)
            while not self._has_room(size):
                target = next((target for target, other in self._models.items() if not other.pinned), None)
                if target is None:
                    return False
                self.remove(target)
            model.size += size
            return True

    def _download(self, target: str, space: _Claim, checkpoint: Checkpoint) -> None:
        url, folder = f"{self._url}/{target}", self._folder_of(target) / "model"
        try:
            checkpoint()
            folder.mkdir(parents=True, exist_ok=True)
            artifacts.open_folders(folder.parent)
            artifacts.fetch(
                self._s3, url=url, to=folder, container=CONTAINER, checkpoint=checkpoint, space=space
            )
        except MissingArtifactError as error:
            raise _not_downloaded(url) from error
        except ArtifactError as error:
            raise invalid_invocation(error.message) from error

    def _has_room(self, size: int) -> bool:
        used = sum(model.size for model in self._models.values())
        if self._volume_bytes is not None and used + size > self._volume_bytes:
            return False
        return shutil.disk_usage(self._folder).free - size > DISK_RESERVE_BYTES

    def _folder_of(self, target: str) -> Path:
        return self._folder / name_of(target)


class _Claim(artifacts.Space):
    """The volume space of one download."""

    def __init__(self, downloads: Downloads, model: _StoredModel, make_room: Callable[[], bool]) -> None:
        super().__init__()
        self._downloads = downloads
        self._model = model
        self._make_room = make_room

    def take(self, size: int) -> None:
        """Reserve bytes, from other models if necessary."""
        while not self._downloads.reserve(self._model, size):
            if not self._make_room():
                raise invalid_invocation(
                    "Failed to download model data: no space is left on the instance's volume, nor models to "
                    "delete."
                )

    def release(self, size: int) -> None:
        """Release bytes."""
        self._model.size -= size


def _not_downloaded(url: str) -> TritonstackError:
    bucket, key = artifacts.bucket_and_key(url)
    return invalid_invocation(
        f"Failed to download model data(bucket: {bucket}, key: {key}). Please ensure that there is "
        "an object located at the URL and that the role passed to CreateModel has permissions to "
        "download the model."
    )
