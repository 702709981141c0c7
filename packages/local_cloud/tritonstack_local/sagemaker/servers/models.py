"""Multi-model endpoints: many models behind one server, loaded as memory allows.

A model has three levels: an archive below the endpoint's S3 prefix; downloaded and unpacked on the instance's
volume; loaded into the server. A request loads its model. If memory or disk is short, the least recently used
idle model makes room: it is unloaded to free memory, or deleted from the volume if it is not loaded.

Requests select their model by the TargetModel header, in load, invocation, and unloading alike.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tritonstack.base.errors import TritonstackError
from tritonstack.triton import (
    TritonEndedError,
    TritonRequestError,
    TritonResponse,
    TritonTimeoutError,
    TritonUnreachableError,
)
from tritonstack_local.sagemaker.dependencies import Limits
from tritonstack_local.sagemaker.rules import invalid_invocation, model_not_ready
from tritonstack_local.sagemaker.servers.downloads import Downloads, name_of
from tritonstack_local.sagemaker.servers.server import Server
from tritonstack_local.service.errors import ReplyError, ServiceError


@dataclass(eq=False)
class HostedModel:
    """One model, from its first request until it is unloaded."""

    target: str
    loaded: Future[None] = field(default_factory=Future)
    users: int = 0
    unloads: int = 0
    """The number of other models' unloads when its load last looked for room."""
    evicts: bool = False
    """Whether its load has unloaded another model."""

    @property
    def serves(self) -> bool:
        """Whether it is loaded."""
        return self.loaded.done() and self.loaded.exception() is None


@dataclass(frozen=True)
class ModelReservation:
    """A model that is not unloaded while a request uses it."""

    path: str
    """The path to invoke it."""
    is_loaded: bool
    """Whether it can be invoked without waiting."""
    wait: Callable[[float], None]
    """Blocks until it is loaded. After the time limit, raises an error that tells the caller to retry."""


def server_ending() -> TritonEndedError:
    """Return the error of an ending server, which has not seen the waiting requests."""
    return TritonEndedError("the endpoint's server is ending")


def load_error(failure: Exception, model: HostedModel) -> TritonstackError:
    """Return the error of waiting requests for a failed load."""
    if isinstance(failure, TritonstackError):
        return failure
    log.exception("loading %s", model.target, exc_info=failure)
    return ServiceError("InternalFailure", f"Model {model.target} could not be loaded: {failure}", status=500)


# SageMaker's limit for loading (with download) or unloading a model.
LOAD_TIMEOUT_S = 360.0
TARGET_HEADER = "X-Amzn-SageMaker-Target-Model"
NOT_FOUND, LOADED_ALREADY, NO_ROOM = 404, 409, 507


class LoadRejectedError(ReplyError):
    """The container did not load a model; with its status and message, status 0 without response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"the container answered {status} to the load: {text}")
        self.status = status
        self.text = text


# How long an abandoned request may still run in the server. Unloading its model meanwhile blocks the server
# for minutes.
GIVEN_UP_REQUEST_S = 300.0
# A load that has taken this long may hang: the next one no longer waits for it.
HANGING_AFTER_S = 10.0

log = logging.getLogger(__name__)

Measure = Callable[[str, float, str], None]
"""Publishes a metric: name, value, unit."""


class HostedModels:
    """Loads models for requests. With `keep` false, each is unloaded and deleted after its last request.

    One model is downloaded and loaded at a time, so that none takes the room made for another.
    """

    def __init__(
        self,
        *,
        server: Server,
        downloads: Downloads,
        limits: Limits,
        measure: Measure,
        keep: bool,
        limit_s: float = LOAD_TIMEOUT_S,
    ) -> None:
        self._server = server
        self._downloads = downloads
        self._limits = limits
        self._measure = measure
        self._keep = keep
        self._limit_s = limit_s
        self._models: dict[str, HostedModel] = {}  # in the order of use
        self._leaving: dict[str, Future[None]] = {}
        self._inside: set[HostedModel] = set()
        """The models in the server, including those being loaded and unloaded."""
        self._unloads = 0
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._closed = threading.Event()

    @contextmanager
    def reserved(self, target: str) -> Iterator[ModelReservation]:
        """Reserve a model for one request, which must wait until it is loaded."""
        model, was_loaded = self._acquire(target)
        counts, release = True, self._release
        try:
            yield ModelReservation(
                path=f"/models/{name_of(target)}/invoke",
                is_loaded=was_loaded,
                wait=lambda timeout_s: self._await_loaded(model, timeout_s),
            )
        except TritonUnreachableError:  # the request goes to another server, which counts it
            counts = False
            raise
        except TritonRequestError:  # the client timed out, but the server may still run the request
            release = self._release_later
            raise
        finally:
            if counts:
                self._measure("ModelCacheHit", float(was_loaded), "None")
            release(model)

    def holds(self, target: str) -> bool:
        """Return whether a model is loaded or being loaded."""
        return target in self._models

    @property
    def closed(self) -> bool:
        """Whether the server is ending."""
        return self._closed.is_set()

    @property
    def unloading(self) -> bool:
        """Whether a model is being unloaded. Triton does not respond meanwhile, not even to pings."""
        return bool(self._leaving)

    def loaded_count(self) -> int:
        """Return the number of loaded models."""
        with self._changed:
            return sum(model.serves for model in self._models.values())

    def relieve(self, *, timeout_s: float | None = None) -> bool:
        """Unload the least recently used idle model, to free memory or disk; return False if there is none.

        Also returns False if it takes longer than the timeout; the unloading continues.
        """
        with self._changed:
            idle = self._idle()
            if idle is None:
                return False
            gone = self._leave(idle)
        _run_in_background(f"unload {idle.target}", self._unload, idle, gone)
        return bool(wait([gone], timeout=timeout_s).done)

    def close(self) -> None:
        """Cancel downloads and waiting loads: the server is about to end."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()

    def _acquire(self, target: str) -> tuple[HostedModel, bool]:
        """Return a model, starting its load if necessary, and whether it was loaded."""
        with self._changed:
            model = self._models.pop(target, None)
            was_loaded = model is not None and model.serves
            if model is None:
                model = HostedModel(target)
                _run_in_background(f"load {target}", self._load, model, self._leaving.get(target))
            self._models[target] = model
            model.users += 1
            return model, was_loaded

    def _await_loaded(self, model: HostedModel, timeout_s: float) -> None:
        if model.loaded.done():
            return model.loaded.result()
        begun = time.monotonic()
        wait([model.loaded], timeout=timeout_s)
        self._took("ModelLoadingWaitTime", begun)
        if not model.loaded.done():
            raise model_not_ready(model.target)
        return model.loaded.result()

    def _release(self, model: HostedModel) -> None:
        with self._changed:
            model.users -= 1
            if model.users or not model.serves or self._closed.is_set():
                return
            if self._keep:
                self._changed.notify_all()
                return
            gone = self._leave(model)
        _run_in_background(f"unload {model.target}", self._unload, model, gone)

    def _release_later(self, model: HostedModel) -> None:
        timer = threading.Timer(GIVEN_UP_REQUEST_S, self._release, [model])
        timer.daemon = True
        timer.start()

    def _load(self, model: HostedModel, predecessor: Future[None] | None) -> None:
        if predecessor is not None:
            predecessor.result()
        deadline = time.monotonic() + self._limit_s
        has_turn = self._turn.acquire(timeout=HANGING_AFTER_S)
        try:
            self._fetch(model, deadline)
            self._load_with_room(model, deadline)
        except Exception as error:
            # The folder of an ending server may be deleted already.
            ending = self.closed and isinstance(error, OSError)
            failure = server_ending() if ending else load_error(error, model)
            self._tidy_up(model, error)
            with self._changed:  # before waiting requests are notified: the next request tries again
                del self._models[model.target]
                self._inside.discard(model)
            model.loaded.set_exception(failure)
        else:
            model.loaded.set_result(None)
        finally:
            if has_turn:
                self._turn.release()
            with self._changed:
                self._changed.notify_all()

    def _tidy_up(self, model: HostedModel, failure: Exception) -> None:
        """Keep or delete the folder of a model that was not loaded."""
        if isinstance(failure, LoadRejectedError) and failure.status:
            self._downloads.remove(model.target)  # the archive may be fixed before the next request
        elif isinstance(failure, ServiceError):
            self._downloads.let_go(model.target)
        # Otherwise the server may still read it.

    def _fetch(self, model: HostedModel, deadline: float) -> None:
        if self._downloads.pin(model.target):
            return
        begun = time.monotonic()

        def checkpoint() -> None:
            if self.closed:
                raise server_ending()
            if time.monotonic() > deadline:
                raise invalid_invocation(
                    f"Model data of {model.target} was not downloaded and unpacked within "
                    f"{self._limit_s:g} s."
                )

        self._downloads.fetch(
            model.target, checkpoint=checkpoint, make_room=lambda: self._makes_room(model, deadline)
        )
        self._took("ModelDownloadingTime", begun)

    def _load_with_room(self, model: HostedModel, deadline: float) -> None:
        """Load a model; as long as it lacks room, unload others first."""
        while not self._enters(model) and self._makes_room(model, deadline):
            continue
        with self._changed:
            self._inside.add(model)  # if nothing else can be unloaded, the server decides
        model.evicts = False
        while True:
            begun, model.unloads = time.monotonic(), self._unloads
            try:
                self._load_into_server(model.target, deadline)
                break
            except LoadRejectedError as rejected:
                # Evict once per request: a model that always lacks memory must not evict all others.
                if rejected.status != NO_ROOM or model.evicts or not self._makes_room(model, deadline):
                    raise
        self._took("ModelLoadingTime", begun)

    def _enters(self, model: HostedModel) -> bool:
        """Count a model among those in the server, if it fits."""
        held, needed = self._server.memory_held(), self._downloads.size_of(model.target)
        with self._changed:
            limit = self._limits.loaded_models
            full = limit is not None and len(self._inside) >= limit
            if full or self._limits.is_short_of_memory(held=held, needed=needed):
                return False
            self._inside.add(model)
            return True

    def _makes_room(self, model: HostedModel, deadline: float) -> bool:
        """Unload an idle model as soon as there is one; return False if no other model is loaded.

        A model unloaded for another reason since the last look counts, too.
        """
        with self._changed:
            in_time = self._changed.wait_for(
                lambda: (
                    self.closed
                    or self._unloads != model.unloads
                    or self._idle() is not None
                    or not (self._leaving or any(other.serves for other in self._models.values()))
                ),
                timeout=deadline - time.monotonic(),
            )
            if self.closed:
                raise server_ending()
            if not in_time:
                raise model_not_ready(model.target)
            if self._unloads != model.unloads:
                model.unloads = self._unloads
                return True
            idle = self._idle()
            if idle is None:
                return False
            gone = self._leave(idle)
        model.evicts = True
        self._unload(idle, gone)
        return True

    def _idle(self) -> HostedModel | None:
        return next((model for model in self._models.values() if model.serves and not model.users), None)

    def _leave(self, model: HostedModel) -> Future[None]:
        """Remove a model; new requests start another load, which waits for its unloading."""
        del self._models[model.target]
        gone: Future[None] = Future()
        self._leaving[model.target] = gone
        return gone

    def _unload(self, model: HostedModel, gone: Future[None]) -> None:
        begun = time.monotonic()
        try:
            # A folder that the server may still read is kept: deleting it would break the server.
            if self._is_unloaded(model.target):
                self._took("ModelUnloadingTime", begun)
                release = self._downloads.let_go if self._keep else self._downloads.remove
                release(model.target)
        except OSError as error:
            log.warning("cannot delete the folder of %s: %s", model.target, error)
        finally:
            with self._changed:
                self._inside.discard(model)
                self._unloads += 1
                if self._leaving.get(model.target) is gone:
                    del self._leaving[model.target]
                self._changed.notify_all()
            gone.set_result(None)  # the model's next load waits for this, successful or not

    def _load_into_server(self, target: str, deadline: float) -> None:
        """Load a model from its folder, or raise LoadRejectedError."""
        name = name_of(target)
        order = {"model_name": name, "url": f"{self._server.model_root}/{name}/model"}
        try:
            answer = self._ask(target, "POST", "/models", json.dumps(order).encode(), deadline)
        except TritonTimeoutError as error:
            raise LoadRejectedError(0, f"The model was not loaded within {self._limit_s:g} s.") from error
        # It is loaded already if an earlier load succeeded after its time limit.
        if answer.status not in (200, LOADED_ALREADY):
            raise LoadRejectedError(answer.status, answer.body.decode(errors="replace"))

    def _is_unloaded(self, target: str) -> bool:
        """Unload a model; return whether the server no longer uses its folder."""
        deadline = time.monotonic() + self._limit_s
        try:
            status = self._ask(target, "DELETE", f"/models/{name_of(target)}", b"", deadline).status
        except TritonstackError as error:
            log.warning("unloading %s: %s", target, error.message)
            return False
        if status not in (200, NOT_FOUND):
            log.warning("unloading %s: the container responded with %d", target, status)
        return status in (200, NOT_FOUND)

    def _ask(self, target: str, method: str, path: str, body: bytes, deadline: float) -> TritonResponse:
        headers = {TARGET_HEADER: target, **({"Content-Type": "application/json"} if body else {})}
        left_s = max(1.0, deadline - time.monotonic())
        return self._server.request(method, path, body=body, headers=headers, timeout_s=left_s)

    def _took(self, name: str, begun: float) -> None:
        self._measure(name, (time.monotonic() - begun) * 1e6, "Microseconds")


def _run_in_background(name: str, work: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=work, args=arguments, name=name, daemon=True).start()
