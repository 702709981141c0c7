"""The settings of a local cloud."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tritonstack_local.time_scale import DEFAULT_TIME_SCALE, TimeScale


@dataclass(frozen=True, kw_only=True)
class CloudSettings:
    """Where a cloud keeps its state, whom it plays, and how."""

    state_dir: Path
    server_home: Path
    """Where the embedded Triton is installed."""
    account_id: str
    region: str
    time_scale: TimeScale = DEFAULT_TIME_SCALE
    containers: bool = False
    """Whether endpoints whose image the machine's Docker engine holds run in that very image."""
    loaded_models: int | None = None
    """How many models an instance of a multi-model endpoint may have loaded at once.

    AWS knows no such number: there the memory of the instance type decides, as it does here without one.
    It stands for an instance whose memory holds so many; a test need not fill the memory of this machine.
    """

    def resolved(self) -> CloudSettings:
        """Return the same with paths that hold in every working directory."""
        return replace(self, state_dir=self.state_dir.resolve(), server_home=self.server_home.resolve())

    def to_json(self) -> str:
        """Write it down for the process that is to be this cloud."""
        return json.dumps(asdict(self) | {"time_scale": self.time_scale.minute_s}, default=str)

    @classmethod
    def from_json(cls, text: str) -> CloudSettings:
        """Read what `to_json` wrote."""
        given = json.loads(text)
        paths = {name: Path(given[name]) for name in ("state_dir", "server_home")}
        return cls(**given | paths | {"time_scale": TimeScale(minute_s=given["time_scale"])})
