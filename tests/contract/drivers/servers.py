"""The interface between contract cases and drivers.

A case that a driver cannot run is skipped with the reason.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.contract import models
from tritonstack.runtime import TritonResponse
from tritonstack.runtime.connections import NO_HEADERS

DEFAULT_MODEL = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"
MULTI_MODEL = "SAGEMAKER_MULTI_MODEL"
PING_MODE = "SAGEMAKER_TRITON_PING_MODE"
TARGET_HEADER = "X-Amzn-SageMaker-Target-Model"

Lay = Callable[[Path], object]
"""Writes models into a folder."""


class Way(Enum):
    """How a model is served."""

    SINGLE = "single"
    ENSEMBLE = "ensemble"
    MULTI_MODEL = "multi-model"
    ENSEMBLE_IN_MULTI_MODEL = "ensemble in multi-model"

    @property
    def many(self) -> bool:
        """True if the server is in multi-model mode."""
        return self in (Way.MULTI_MODEL, Way.ENSEMBLE_IN_MULTI_MODEL)


class Ability(Enum):
    """What some drivers cannot do."""

    ASKING_ANYTHING = "asking with any method, path and header"
    LAYING_MODELS = "laying models before a multi-model server that runs"
    STARTING = "starting servers"


class RejectedError(Exception):
    """A server ended instead of becoming ready; the message is its output."""


@dataclass(frozen=True)
class Model:
    """A model of the cases, and its path in each mode."""

    name: str
    target: str
    lay: Lay


DOUBLE = Model(models.DOUBLE, models.DOUBLE_TARGET, models.single)
CHAIN = Model(models.CHAIN, models.CHAIN_TARGET, models.ensemble)
ECHO = Model("echo", "contract/echo.tar.gz", models.echo)
DECOUPLED = Model("decoupled", "contract/decoupled.tar.gz", models.decoupled)

STANDARD = {
    Way.SINGLE: DOUBLE,
    Way.ENSEMBLE: CHAIN,
    Way.MULTI_MODEL: DOUBLE,
    Way.ENSEMBLE_IN_MULTI_MODEL: CHAIN,
}
"""What most cases are asked of."""


class Server(Protocol):
    """A server with a reachable port."""

    models: Path | None
    """The folder that lies under /opt/ml/model, or /opt/ml/models; None where it is out of reach."""
    seen_at: str
    """The same folder as the server sees it."""

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        timeout_s: float = 60.0,
    ) -> TritonResponse:
        """Send a request and return its answer with any status; raise TritonRequestError without one."""

    def connect(self) -> socket.socket:
        """Open a connection for requests that no library would send."""

    @property
    def running(self) -> bool:
        """Return whether the server is still running."""

    def log(self) -> str:
        """Return the server's output."""

    def stop(self) -> None:
        """Stop the server."""


@dataclass(frozen=True)
class ServedModel:
    """A served model that cases invoke."""

    way: Way
    model: Model
    send: Callable[[bytes, Mapping[str, str]], TritonResponse]
    server: Server | None
    """The server behind it, None where it is out of reach."""

    @property
    def factor(self) -> float:
        """The factor by which the model multiplies."""
        return 6 if self.model is CHAIN else 2

    def ask(
        self, body: bytes, content_type: str | None = "application/json", **headers: str
    ) -> TritonResponse:
        """Invoke the model once."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.send(body, {**({} if content_type is None else {"Content-Type": content_type}), **fields})


class Driver(Protocol):
    """Provides servers."""

    ways: tuple[Way, ...]
    """What it can serve."""
    release: tuple[int, int] | None
    """The Triton release of its servers, None where nobody said."""

    def lacks(self, ability: Ability) -> str | None:
        """Return why the driver cannot do something; None if it can."""

    def start(self, lay: Lay, environment: Mapping[str, str]) -> Server:
        """Start a server on its own models and wait until it is ready; raise RejectedError if it ends."""

    def served_model(self, way: Way, model: Model) -> ServedModel:
        """Return the model, served in this way."""

    def multi_model(self) -> MultiModel:
        """Return the multi-model server that all cases share."""

    def close(self) -> None:
        """Stop everything that was started."""


def at_invocations(server: Server, way: Way, model: Model) -> ServedModel:
    """Return the model of a single-model server."""
    return ServedModel(
        way,
        model,
        lambda body, headers: server.request("POST", "/invocations", body=body, headers=headers),
        server,
    )


class MultiModel:
    """A multi-model server, addressed as SageMaker does."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._loaded: set[str] = set()

    def lay(self, name: str, lay: Lay) -> None:
        """Write an archive's content where SageMaker unpacks it."""
        if self.server.models is None:
            pytest.skip("the server's model folder is out of reach: give --model-root")
        folder = self.server.models / name / "model"
        folder.mkdir(parents=True)
        lay(folder)

    def load(
        self, name: str, target: str | None, *, url: str | None = None, timeout_s: float = 60.0
    ) -> TritonResponse:
        """Request a model's load; without `target`, omit the target header."""
        order = {"model_name": name, "url": url or f"{self.server.seen_at}/{name}/model"}
        return self.server.request(
            "POST", "/models", body=json.dumps(order).encode(), headers=_to(target), timeout_s=timeout_s
        )

    def ensure(self, name: str, model: Model) -> ServedModel:
        """Load a model once and return it."""
        if name not in self._loaded:
            self.lay(name, model.lay)
            answer = self.load(name, model.target)
            assert answer.status == 200, answer.body
            self._loaded.add(name)
        way = Way.ENSEMBLE_IN_MULTI_MODEL if model is CHAIN else Way.MULTI_MODEL
        return ServedModel(
            way,
            model,
            lambda body, headers: self.invoke(name, model.target, body, headers),
            self.server,
        )

    def invoke(
        self, name: str, target: str | None, body: bytes, headers: Mapping[str, str] = NO_HEADERS
    ) -> TritonResponse:
        """Invoke a model."""
        return self.server.request(
            "POST", f"/models/{name}/invoke", body=body, headers={**_to(target), **headers}
        )

    def unload(self, name: str, target: str | None) -> TritonResponse:
        """Request a model's unload."""
        return self.server.request("DELETE", f"/models/{name}", headers=_to(target))

    def described(self, name: str) -> TritonResponse:
        """Request the description of one model."""
        return self.server.request("GET", f"/models/{name}")

    def listed(self) -> list[dict[str, Any]]:
        """Request the list of models."""
        answer = self.server.request("GET", "/models")
        assert answer.status == 200, answer.body
        entries: list[dict[str, Any]] = json.loads(answer.body)["models"]
        return entries

    def ping(self) -> int:
        """Return the status of the health check."""
        return self.server.request("GET", "/ping").status


def _to(target: str | None) -> dict[str, str]:
    return {} if target is None else {TARGET_HEADER: target}
