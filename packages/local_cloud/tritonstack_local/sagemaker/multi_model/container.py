"""A multi-model server: load, unload, and invoke models under SageMaker's contract.

Requests select their model by the TargetModel header, in load, invocation, and unloading alike. Callers must
not unload a model during a request, and must keep its folder until the unloading is complete.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from tritonstack.base.errors import TritonstackError
from tritonstack.triton import TritonEndedError, TritonResponse, TritonTimeoutError
from tritonstack_local.sagemaker.servers.server import Server
from tritonstack_local.service.errors import ReplyError, ServiceError

log = logging.getLogger(__name__)


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


def name_of(target: str) -> str:
    """Return a model's name in the server: an opaque string, as in SageMaker."""
    return hashlib.sha256(target.encode()).hexdigest()[:32]


class ModelContainer:
    """Loads and unloads models, each within `limit_s`."""

    def __init__(self, server: Server, *, limit_s: float) -> None:
        self._server = server
        self._limit_s = limit_s

    def load(self, target: str, *, deadline: float) -> None:
        """Load a model from its folder, or raise LoadRejectedError."""
        name = name_of(target)
        order = {"model_name": name, "url": f"{self._server.model_root}/{name}/model"}
        try:
            answer = self._ask(target, "POST", "/models", json.dumps(order).encode(), deadline)
        except TritonTimeoutError as error:
            raise LoadRejectedError(0, f"The model was not loaded within {self._limit_s:g} s.") from error
        # It is loaded already if an earlier load succeeded after its time limit.
        if answer.status in (200, LOADED_ALREADY):
            return
        raise LoadRejectedError(answer.status, answer.body.decode(errors="replace"))

    def unload(self, target: str) -> bool:
        """Unload a model; return whether the server no longer uses its folder."""
        deadline = time.monotonic() + self._limit_s
        try:
            answer = self._ask(target, "DELETE", f"/models/{name_of(target)}", b"", deadline)
        except TritonstackError as error:
            log.warning("unloading %s: %s", target, error.message)
            return False
        if answer.status not in (200, NOT_FOUND):
            log.warning("unloading %s: the container responded with %d", target, answer.status)
        return answer.status in (200, NOT_FOUND)

    def memory_held(self) -> int:
        """Return the server's memory use."""
        return self._server.memory_held()

    def _ask(self, target: str, method: str, path: str, body: bytes, deadline: float) -> TritonResponse:
        headers = {TARGET_HEADER: target, **({"Content-Type": "application/json"} if body else {})}
        left_s = max(1.0, deadline - time.monotonic())
        return self._server.request(method, path, body=body, headers=headers, timeout_s=left_s)
