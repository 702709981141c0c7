"""Which models a server holds, and whether another one fits into it."""

from __future__ import annotations

import threading

from tritonstack_local.sagemaker.errors import model_not_ready
from tritonstack_local.sagemaker.multi_model.container import HostedModel, ModelCapacityError, ModelContainer
from tritonstack_local.sagemaker.servers.limits import Limits


class ServerOccupancy:
    """The models in a server, including those being loaded and unloaded."""

    def __init__(self, container: ModelContainer, limits: Limits, lock: threading.Condition) -> None:
        """Guard the models with the lock of the models' other state."""
        self._container = container
        self._limits = limits
        self._lock = lock
        self._models: set[HostedModel] = set()
        self.entries = 0
        """Number of loads so far."""

    def enter(self, model: HostedModel) -> None:
        """Add a model before its load; raise ModelCapacityError if the server holds too many."""
        limit = self._limits.loaded_models
        with self._lock:
            if limit is not None and len(self._models) >= limit:
                raise ModelCapacityError(model_not_ready(model.target))
            self._models.add(model)
            self.entries += 1

    def leave(self, model: HostedModel) -> None:
        """Remove a model after its unloading, or after a load that failed."""
        self._models.discard(model)

    def check_memory(self, model: HostedModel, *, needed: int) -> None:
        """Raise ModelCapacityError if the server lacks memory for a model."""
        if self._limits.is_short_of_memory(held=self._container.memory_held(), needed=needed):
            raise ModelCapacityError(model_not_ready(model.target))

    def all_serve(self) -> bool:
        """Return whether no model is being loaded or unloaded."""
        return all(model.serves for model in self._models)
