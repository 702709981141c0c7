"""Load models of a server on first use, and unload idle ones when memory runs short."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

from tritonstack.runtime import TritonRequestError, TritonUnreachableError
from tritonstack_local.sagemaker.errors import invalid_invocation, model_not_ready
from tritonstack_local.sagemaker.multi_model.container import (
    LOAD_TIMEOUT_S,
    HostedModel,
    LoadRejectedError,
    ModelCapacityError,
    ModelContainer,
    ModelReservation,
    RoomOutcome,
    load_error,
    name_of,
    server_ending,
)
from tritonstack_local.sagemaker.multi_model.downloads import DownloadFolders, Downloads
from tritonstack_local.sagemaker.multi_model.measures import Measures
from tritonstack_local.sagemaker.multi_model.occupancy import ServerOccupancy
from tritonstack_local.sagemaker.multi_model.threads import run_after, run_in_background
from tritonstack_local.sagemaker.servers.limits import Limits
from tritonstack_local.sagemaker.servers.server import MultiModelServer
from tritonstack_local.service.errors import ServiceError

# How long an abandoned request may still run in the server. Unloading its model meanwhile blocks the server
# for minutes.
GIVEN_UP_REQUEST_S = 300.0
# A load that has taken this long may hang: other loads no longer wait for it to make or take room.
HANGING_AFTER_S = 10.0

log = logging.getLogger(__name__)


class HostedModels:
    """Loads models for requests. With `keep` false, each is unloaded and deleted after its last request."""

    def __init__(
        self,
        *,
        server: MultiModelServer,
        folders: DownloadFolders,
        limits: Limits,
        measures: Measures,
        keep: bool,
        limit_s: float = LOAD_TIMEOUT_S,
    ) -> None:
        self._container = ModelContainer(server, limit_s=limit_s)
        self._downloads = Downloads(folders=folders, volume_bytes=limits.volume_bytes)
        self._measures = measures
        self._keep = keep
        self._limit_s = limit_s
        self._models: dict[str, HostedModel] = {}  # in the order of use
        self._leaving: dict[str, Future[None]] = {}
        self._vacancies = 0
        self._last_try: HostedModel | None = None
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._occupancy = ServerOccupancy(self._container, limits, self._changed)

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
                self._measures.asked(loaded=was_loaded)
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
        run_in_background(f"unload {idle.target}", self._unload_unasked, idle, gone)
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
                run_in_background(f"load {target}", self._load, model, self._leaving.get(target))
            self._models[target] = model
            model.users += 1
            return model, was_loaded

    def _await_loaded(self, model: HostedModel, timeout_s: float) -> None:
        if model.loaded.done():
            return model.loaded.result()
        begun = time.monotonic()
        wait([model.loaded], timeout=timeout_s)
        self._measures.waited(time.monotonic() - begun)
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
        run_in_background(f"unload {model.target}", self._unload_unasked, model, gone)

    def _release_later(self, model: HostedModel) -> None:
        run_after(GIVEN_UP_REQUEST_S, self._release, model)

    def _load(self, model: HostedModel, predecessor: Future[None] | None) -> None:
        if predecessor is not None:
            predecessor.result()
        try:
            self._load_model(model)
        except Exception as error:
            # The folder of an ending server may be deleted already.
            ending = self.closed and isinstance(error, OSError)
            failure = server_ending() if ending else load_error(error, model)
            self._tidy_up(model, error)
            with self._changed:  # before waiting requests are notified: the next request tries again
                del self._models[model.target]
            model.loaded.set_exception(failure)
            self._vacate()
        else:
            model.loaded.set_result(None)
            with self._changed:
                self._changed.notify_all()

    def _tidy_up(self, model: HostedModel, failure: Exception) -> None:
        """Keep or delete the folder of a model that was not loaded."""
        if isinstance(failure, LoadRejectedError) and failure.status:
            self._downloads.remove(model.target)  # the archive may be fixed before the next request
        elif isinstance(failure, ServiceError):
            self._downloads.let_go(model.target)
        # Otherwise the server may still read it.

    def _load_model(self, model: HostedModel) -> None:
        deadline = time.monotonic() + self._limit_s
        self._with_room(model, lambda _: self._fetch(model, deadline), deadline)
        self._with_room(model, lambda alone: self._load_now(model, deadline, alone=alone), deadline)

    def _with_room(self, model: HostedModel, step: Callable[[bool], None], deadline: float) -> None:
        """Run a step of a load; while it lacks room, make room or wait, and repeat it.

        The step gets True on its last try, when no other model can be unloaded.
        """
        alone = False
        while True:
            vacancies = self._vacancies
            try:
                if self._last_try not in (None, model) and not self._last_try.hangs:
                    raise ModelCapacityError(model_not_ready(model.target))
                return step(alone)
            except ModelCapacityError as full:
                from_server = isinstance(full.rejection, LoadRejectedError)
                # The memory that one eviction freed was not enough, and no other model took it: a model
                # that always lacks memory evicts one other model per request.
                in_vain = model.entries_at_eviction == self._occupancy.entries - 1
                if alone or (from_server and in_vain):
                    raise full.rejection from full
            finally:
                if alone:
                    self._last_try = None
                    self._vacate()
            alone = self._make_room(model, vacancies, deadline) is RoomOutcome.NONE

    def _make_room(self, model: HostedModel, vacancies: int, deadline: float) -> RoomOutcome:
        """Unload an idle model as soon as there is one.

        If loads only wait for each other, one proceeds, and new ones wait for it.
        """
        model.entries_at_eviction = None
        with self._changed:
            model.waits = True
            self._changed.notify_all()
            in_time = self._changed.wait_for(
                lambda: (
                    self._closed.is_set()
                    or self._vacancies != vacancies
                    or self._idle() is not None
                    or self._is_alone(model)
                ),
                timeout=deadline - time.monotonic(),
            )
            model.waits = False
            if self._closed.is_set():
                raise server_ending()
            if not in_time:
                raise model_not_ready(model.target)
            if self._vacancies != vacancies:
                return RoomOutcome.VACATED
            idle = self._idle()
            if idle is None:
                self._last_try = model
                return RoomOutcome.NONE
            if self._none_moving():
                model.entries_at_eviction = self._occupancy.entries
            gone = self._leave(idle)
        self._unload(idle, gone)
        return RoomOutcome.EVICTED

    def _none_moving(self) -> bool:
        """Return whether no model is being loaded or unloaded."""
        return not self._leaving and self._occupancy.all_serve()

    def _is_alone(self, model: HostedModel) -> bool:
        others = (other for other in self._models.values() if other is not model)
        return not self._leaving and all(other.waits or other.hangs for other in others)

    def _fetch(self, model: HostedModel, deadline: float) -> None:
        if self._downloads.pin(model.target):
            return
        begun = time.monotonic()

        def checkpoint() -> None:
            if self._closed.is_set():
                raise server_ending()
            if time.monotonic() > deadline:
                raise invalid_invocation(
                    f"Model data of {model.target} was not downloaded and unpacked within "
                    f"{self._limit_s:g} s."
                )

        self._downloads.fetch(model.target, checkpoint=checkpoint, make_room=self.relieve)
        self._measures.downloaded(time.monotonic() - begun)

    def _load_now(self, model: HostedModel, deadline: float, *, alone: bool) -> None:
        self._occupancy.enter(model)
        try:
            if not alone:
                self._occupancy.check_memory(model, needed=self._downloads.size_of(model.target))
            begun = time.monotonic()
            with self._noticed_if_it_hangs(model):
                self._container.load(model.target, deadline=deadline)
        except BaseException:
            self._occupancy.leave(model)
            raise
        self._measures.loaded(time.monotonic() - begun)

    @contextmanager
    def _noticed_if_it_hangs(self, model: HostedModel) -> Iterator[None]:
        """Notify waiting loads if this load takes too long."""

        def give_up() -> None:
            model.hangs = True
            self._vacate()

        timer = run_after(HANGING_AFTER_S, give_up)
        try:
            yield
        finally:
            timer.cancel()
            model.hangs = False

    def _idle(self) -> HostedModel | None:
        return next((model for model in self._models.values() if model.serves and not model.users), None)

    def _leave(self, model: HostedModel) -> Future[None]:
        """Remove a model; new requests start another load, which waits for its unloading."""
        del self._models[model.target]
        gone: Future[None] = Future()
        self._leaving[model.target] = gone
        return gone

    def _unload_unasked(self, model: HostedModel, gone: Future[None]) -> None:
        self._unload(model, gone)
        self._vacate()

    def _unload(self, model: HostedModel, gone: Future[None]) -> None:
        begun = time.monotonic()
        try:
            # A folder that the server may still read is kept: deleting it would break the server.
            if self._container.unload(model.target):
                self._measures.unloaded(time.monotonic() - begun)
                release = self._downloads.let_go if self._keep else self._downloads.remove
                release(model.target)
        except OSError as error:
            log.warning("cannot delete the folder of %s: %s", model.target, error)
        finally:
            with self._changed:
                self._occupancy.leave(model)
                if self._leaving.get(model.target) is gone:
                    del self._leaving[model.target]
                self._changed.notify_all()
            gone.set_result(None)  # the model's next load waits for this, successful or not

    def _vacate(self) -> None:
        """Notify waiting loads that memory may be free."""
        with self._changed:
            self._vacancies += 1
            self._changed.notify_all()
