"""The state of one model on a server, and the error when it fails to load."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, auto

from tritonstack.base.errors import TritonstackError
from tritonstack.runtime import TritonEndedError
from tritonstack_local.service.faults import ServiceError

log = logging.getLogger(__name__)


class RoomOutcome(Enum):
    """What came of making room for a load."""

    EVICTED = auto()
    VACATED = auto()
    """Another model has left."""
    NONE = auto()
    """No model is left that could go."""


@dataclass(eq=False)
class HostedModel:
    """One model, from its first request until it is unloaded; another request then begins another."""

    target: str
    loaded: Future[None] = field(default_factory=Future)
    users: int = 0
    waits: bool = False
    """Whether its load waits for others to make room."""
    hangs: bool = False
    """Whether the server has been loading it for suspiciously long."""
    entries_at_eviction: int | None = None
    """How many models had entered the server when a neighbor left for this one, if none was on its way."""

    @property
    def serves(self) -> bool:
        """Whether it can be asked."""
        return self.loaded.done() and self.loaded.exception() is None


def server_ends() -> TritonEndedError:
    """Tell that the server does not load any more: it has seen nothing of the requests that wait."""
    return TritonEndedError("the endpoint's server is ending")


def told(fault: Exception, model: HostedModel) -> TritonstackError:
    """Make of a load's failure what the requests that wait for the model hear of it."""
    if isinstance(fault, TritonstackError):
        return fault
    log.exception("loading %s", model.target, exc_info=fault)
    return ServiceError("InternalFailure", f"Model {model.target} could not be loaded: {fault}", status=500)
