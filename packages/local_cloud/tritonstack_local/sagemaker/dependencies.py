"""What SageMaker needs of the rest of the cloud."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tritonstack_local.sagemaker.servers.limits import ServerSlots, this_machine
from tritonstack_local.service.clients import Clients
from tritonstack_local.settings import DEFAULT_TIME_SCALE, REAL_MINUTE_S, TimeScale

if TYPE_CHECKING:
    from tritonstack_local.container_group import ContainerGroup


@dataclass(frozen=True)
class Dependencies:
    """Dependencies of SageMaker on the rest of the cloud."""

    folder: Path
    """Folder of the endpoints' instances."""
    clients: Clients
    time_scale: TimeScale = DEFAULT_TIME_SCALE
    machine: ServerSlots = field(default_factory=this_machine)
    """Limits of the machine."""
    container_group: ContainerGroup | None = None
    """Where images in the Docker engine run; None to serve all with the embedded Triton."""
    loaded_models: int | None = None
    """Maximum number of loaded models per multi-model instance, besides the memory limit."""
    provisioning_minutes: float = 0.0
    """Minutes on AWS until an added instance serves, at least."""

    @property
    def provisioning_s(self) -> float:
        """The same in seconds here."""
        return self.time_scale.lasting(self.provisioning_minutes * REAL_MINUTE_S)
