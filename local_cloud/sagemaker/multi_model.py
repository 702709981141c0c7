"""The models of one multi-model server: fetched and loaded when they are first asked for, each once.

Three habits of the server behind it shape this: a request finds its model by the TargetModel header, so that
the same one goes with load, invocation and unloading; a model must not be unloaded under a running request;
and its folder has to stay until the unloading has been answered.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from catalog.errors import TritonstackError
from local_cloud.sagemaker import artifacts
from local_cloud.sagemaker.faults import ServiceError, invocation_refused, model_not_ready
from triton_runtime import TritonResponse, TritonTimeoutError

# How long SageMaker lets a container load or unload a model, the download included.
LOAD_TIMEOUT_S = 360.0
TARGET_HEADER = "X-Amzn-SageMaker-Target-Model"
CONTAINER = "model"

log = logging.getLogger(__name__)


class LoadRefusedError(TritonstackError):
    """The container did not load a model: its own status and words; status 0 if it never answered."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"the container answered {status} to the load: {said}")
        self.status = status
        self.said = said


class MultiModelServer(Protocol):
    """What is needed of the server."""

    model_root: Path
    """The models' folder as the server sees it."""

    def request(
        self, method: str, path: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> TritonResponse:
        """Send one request."""


@dataclass(frozen=True)
class Shelf:
    """Where the archives lie, and where they are unpacked."""

    s3: Any
    url: str
    folder: Path

    def url_of(self, target: str) -> str:
        """The archive of a model."""
        return f"{self.url.rstrip('/')}/{target}"


@dataclass
class _Model:
    """One model on its way to the server, or there."""

    target: str
    loaded: Future[None] = field(default_factory=Future)
    users: int = 0

    @property
    def name(self) -> str:
        """What the server is told as the model's name: letters that mean nothing, as SageMaker's."""
        return hashlib.sha256(self.target.encode()).hexdigest()[:32]

    @property
    def serves(self) -> bool:
        """Whether it can be asked."""
        return self.loaded.done() and self.loaded.exception() is None


class HostedModels:
    """Loads models for requests. `keep` false unloads each when its last request has ended."""

    def __init__(
        self, *, server: MultiModelServer, shelf: Shelf, keep: bool, limit_s: float = LOAD_TIMEOUT_S
    ) -> None:
        self._server = server
        self._shelf = shelf
        self._keep = keep
        self._limit_s = limit_s
        self._models: dict[str, _Model] = {}
        self._leaving: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @contextmanager
    def in_use(self, target: str, *, timeout_s: float) -> Iterator[str]:
        """Hold a model for one request and give the path that asks it.

        A request that has waited too long is told to come again; the load goes on without it.
        """
        model = self._take(target)
        try:
            wait([model.loaded], timeout=timeout_s)
            if not model.loaded.done():
                raise model_not_ready(target)
            model.loaded.result()
            yield f"/models/{model.name}/invoke"
        finally:
            self._give_back(model)

    def holds(self, target: str) -> bool:
        """Whether a model is loaded, or on its way."""
        with self._lock:
            return target in self._models

    def close(self) -> None:
        """Break off what is being fetched: the server is about to end."""
        self._closed.set()

    def _take(self, target: str) -> _Model:
        with self._lock:
            model = self._models.get(target)
            if model is None:
                model = self._models[target] = _Model(target)
                _in_thread(f"load {target}", self._load, model, self._leaving.get(target))
            model.users += 1
            return model

    def _give_back(self, model: _Model) -> None:
        with self._lock:
            model.users -= 1
            if self._keep or model.users or not model.serves or self._closed.is_set():
                return
            del self._models[model.target]
            gone: Future[None] = Future()
            self._leaving[model.target] = gone
        _in_thread(f"unload {model.target}", self._unload, model, gone)

    def _load(self, model: _Model, predecessor: Future[None] | None) -> None:
        if predecessor is not None:
            predecessor.result()
        try:
            self._bring(model)
        except Exception as fault:
            shutil.rmtree(self._folder(model), ignore_errors=True)
            with self._lock:  # before anybody hears of it: the next request tries again
                del self._models[model.target]
            model.loaded.set_exception(_told(fault, model))
        else:
            model.loaded.set_result(None)

    def _bring(self, model: _Model) -> None:
        deadline = time.monotonic() + self._limit_s
        self._fetch(model, deadline)
        order = {"model_name": model.name, "url": f"{self._server.model_root}/{model.name}/model"}
        try:
            answer = self._ask(model, "POST", "/models", json.dumps(order).encode(), deadline)
        except TritonTimeoutError as fault:
            raise LoadRefusedError(0, f"The model was not loaded within {self._limit_s:g} s.") from fault
        # 409: it is loaded already, by a load whose answer came after the time limit.
        if answer.status not in (200, 409):
            raise LoadRefusedError(answer.status, answer.body.decode(errors="replace"))

    def _fetch(self, model: _Model, deadline: float) -> None:
        url = self._shelf.url_of(model.target)

        def checkpoint() -> None:
            if self._closed.is_set():
                raise artifacts.ArtifactError("The endpoint's server is ending.")
            if time.monotonic() > deadline:
                raise artifacts.ArtifactError(
                    f'Model data at "{url}" was not downloaded and unpacked within {self._limit_s:g} s.'
                )

        folder = self._folder(model) / "model"
        try:
            checkpoint()
            folder.mkdir(parents=True, exist_ok=True)
            artifacts.fetch(self._shelf.s3, url=url, to=folder, container=CONTAINER, checkpoint=checkpoint)
        except artifacts.MissingArtifactError as fault:
            bucket, key = artifacts.bucket_and_key(url)
            raise invocation_refused(
                f"Failed to download model data(bucket: {bucket}, key: {key}). Please ensure that there is "
                "an object located at the URL and that the role passed to CreateModel has permissions to "
                "download the model."
            ) from fault
        except artifacts.ArtifactError as fault:
            raise invocation_refused(fault.message) from fault

    def _unload(self, model: _Model, gone: Future[None]) -> None:
        deadline = time.monotonic() + self._limit_s
        try:
            answer = self._ask(model, "DELETE", f"/models/{model.name}", b"", deadline)
        except TritonstackError as fault:
            log.warning("unloading %s: %s", model.target, fault.message)
        else:
            if answer.status == 200:
                shutil.rmtree(self._folder(model), ignore_errors=True)
            else:
                log.warning("unloading %s: the container answered %d", model.target, answer.status)
        with self._lock:
            if self._leaving.get(model.target) is gone:
                del self._leaving[model.target]
        gone.set_result(None)

    def _ask(self, model: _Model, method: str, path: str, body: bytes, deadline: float) -> TritonResponse:
        headers = {TARGET_HEADER: model.target, **({"Content-Type": "application/json"} if body else {})}
        left_s = max(1.0, deadline - time.monotonic())
        return self._server.request(method, path, body=body, headers=headers, timeout_s=left_s)

    def _folder(self, model: _Model) -> Path:
        return self._shelf.folder / model.name


def _told(fault: Exception, model: _Model) -> TritonstackError:
    """What the requests that wait for a model hear of its failure."""
    if isinstance(fault, TritonstackError):
        return fault
    log.exception("loading %s", model.target, exc_info=fault)
    return ServiceError("InternalFailure", f"Model {model.target} could not be loaded: {fault}", status=500)


def _in_thread(name: str, work: Any, *arguments: Any) -> None:
    threading.Thread(target=work, args=arguments, name=name, daemon=True).start()
