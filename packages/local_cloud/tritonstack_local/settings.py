"""The settings of a local cloud, and its time scale.

The time scale shortens AWS's waits between rollout steps, in alarm periods, in cooldowns, and in schedules.
Downloads, starts, health checks, invocations, and builds run in real time.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tritonstack.base.files import parse_json

REAL_MINUTE_S = 60.0
DEFAULT_MINUTE_S = 1.0
"""By default, a minute of waiting lasts one second."""


@dataclass(frozen=True)
class TimeScale:
    """How long waits last here, compared with AWS."""

    minute_s: float = DEFAULT_MINUTE_S
    """Seconds here per minute of waiting on AWS."""

    def lasting(self, aws_s: float) -> float:
        """Return how long a wait of `aws_s` seconds lasts here."""
        return aws_s * self.minute_s / REAL_MINUTE_S


DEFAULT_TIME_SCALE = TimeScale()


@dataclass(frozen=True, kw_only=True)
class CloudSettings:
    """State folder, account, region, and options of a cloud."""

    state_dir: Path
    server_home: Path
    """Folder of the embedded Triton installation."""
    account_id: str
    region: str
    time_scale: TimeScale = DEFAULT_TIME_SCALE
    containers: bool = False
    """Whether endpoints run in their own image if the machine's Docker engine has it."""
    loaded_models: int | None = None
    """Maximum number of models loaded at once per instance of a multi-model endpoint.

    AWS has no such limit: the memory of the instance type decides, as it does here by default. With this
    number, tests need not fill the memory of this machine.
    """
    provisioning_minutes: float = 0.0
    """Minutes on AWS until an added instance serves, at least; 0 for as fast as this machine starts it."""
    rollback_fails_update: bool = False
    """Whether CloudFormation reports an update as failed if SageMaker rolled it back.

    AWS does not document what it does. By default it reports success and deletes what it replaced.
    """
    expose: bool = False
    """Whether Triton can listen on every network interface if it cannot be isolated."""

    def resolved(self) -> CloudSettings:
        """Return the settings with absolute paths."""
        return replace(self, state_dir=self.state_dir.resolve(), server_home=self.server_home.resolve())

    def to_json(self) -> str:
        """Serialize for the cloud's process."""
        return json.dumps(asdict(self) | {"time_scale": self.time_scale.minute_s}, default=str)

    @classmethod
    def from_json(cls, text: str) -> CloudSettings:
        """Read what `to_json` wrote."""
        fields = parse_json(text)
        paths = {name: Path(fields[name]) for name in ("state_dir", "server_home")}
        return cls(**fields | paths | {"time_scale": TimeScale(minute_s=fields["time_scale"])})
