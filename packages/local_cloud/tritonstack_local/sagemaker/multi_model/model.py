"""The state of one model on a server, and the error when it fails to load."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, auto

from tritonstack.base.errors import TritonstackError
from tritonstack.runtime import TritonEndedError
from tritonstack_local.service.errors import ServiceError

log = logging.getLogger(__name__)


class RoomOutcome(Enum):
    """The result of making room for a load."""

    EVICTED = auto()
    VACATED = auto()
    """Another model was unloaded."""
    NONE = auto()
    """No other model can be unloaded."""


@dataclass(eq=False)
class HostedModel:
    """One model, from its first request until it is unloaded."""

    target: str
    loaded: Future[None] = field(default_factory=Future)
    users: int = 0
    waits: bool = False
    """Whether its load waits for room."""
    hangs: bool = False
    """Whether its load has taken suspiciously long."""
    entries_at_eviction: int | None = None
    """Number of loads when another model was evicted for this one."""

    @property
    def serves(self) -> bool:
        """Whether it is loaded."""
        return self.loaded.done() and self.loaded.exception() is None


def server_ends() -> TritonEndedError:
    """Return the error of an ending server, which has not seen the waiting requests."""
    return TritonEndedError("the endpoint's server is ending")


def told(fault: Exception, model: HostedModel) -> TritonstackError:
    """Return the error of waiting requests for a failed load."""
    if isinstance(fault, TritonstackError):
        return fault
    log.exception("loading %s", model.target, exc_info=fault)
    return ServiceError("InternalFailure", f"Model {model.target} could not be loaded: {fault}", status=500)
