"""A multi-model server: load, unload, and invoke models under SageMaker's contract.

A request finds its model by the TargetModel header rather than by the name in its path, so that the same one
goes with load, invocation and unloading. A model must not be unloaded under a running request, and its folder
has to stay until the unloading has been answered: what calls this module sees to both.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tritonstack.base.errors import TritonstackError
from tritonstack.runtime import TritonResponse, TritonTimeoutError

# How long SageMaker lets a container load or unload a model, the download included.
LOAD_TIMEOUT_S = 360.0
TARGET_HEADER = "X-Amzn-SageMaker-Target-Model"
NOT_FOUND, LOADED_ALREADY, NO_ROOM = 404, 409, 507

log = logging.getLogger(__name__)


class LoadRefusedError(TritonstackError):
    """The container did not load a model: its own status and words; status 0 if it never answered."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"the container answered {status} to the load: {said}")
        self.status = status
        self.said = said


class ModelCapacityError(TritonstackError):
    """There is no room for a model as long as the others stay; `refusal` is what holds if they go in vain."""

    def __init__(self, refusal: TritonstackError) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class MultiModelServer(Protocol):
    """What is needed of the server."""

    model_root: Path
    """The models' folder as the server sees it."""

    def request(
        self, method: str, path: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> TritonResponse:
        """Send one request."""

    def memory_held(self) -> int:
        """Measure the memory of its processes in bytes, shared memory included."""


def name_of(target: str) -> str:
    """Return what the server is told as a model's name: letters that mean nothing, as SageMaker's."""
    return hashlib.sha256(target.encode()).hexdigest()[:32]


class ModelContainer:
    """Loads models and unloads them. `limit_s` is how long either may take."""

    def __init__(self, server: MultiModelServer, *, limit_s: float) -> None:
        self._server = server
        self._limit_s = limit_s

    def load(self, target: str, *, deadline: float) -> None:
        """Load a model from its folder; raise NoRoomError when the server lacks memory for it."""
        name = name_of(target)
        order = {"model_name": name, "url": f"{self._server.model_root}/{name}/model"}
        try:
            answer = self._ask(target, "POST", "/models", json.dumps(order).encode(), deadline)
        except TritonTimeoutError as fault:
            raise LoadRefusedError(0, f"The model was not loaded within {self._limit_s:g} s.") from fault
        # It is loaded already where the answer to an earlier load came after the time limit.
        if answer.status in (200, LOADED_ALREADY):
            return
        refusal = LoadRefusedError(answer.status, answer.body.decode(errors="replace"))
        raise ModelCapacityError(refusal) if answer.status == NO_ROOM else refusal

    def unload(self, target: str) -> bool:
        """Unload a model; say whether the server has left its folder."""
        deadline = time.monotonic() + self._limit_s
        try:
            answer = self._ask(target, "DELETE", f"/models/{name_of(target)}", b"", deadline)
        except TritonstackError as fault:
            log.warning("unloading %s: %s", target, fault.message)
            return False
        if answer.status not in (200, NOT_FOUND):
            log.warning("unloading %s: the container answered %d", target, answer.status)
        return answer.status in (200, NOT_FOUND)

    def memory_held(self) -> int:
        """Measure the server's memory."""
        return self._server.memory_held()

    def _ask(self, target: str, method: str, path: str, body: bytes, deadline: float) -> TritonResponse:
        headers = {TARGET_HEADER: target, **({"Content-Type": "application/json"} if body else {})}
        left_s = max(1.0, deadline - time.monotonic())
        return self._server.request(method, path, body=body, headers=headers, timeout_s=left_s)
