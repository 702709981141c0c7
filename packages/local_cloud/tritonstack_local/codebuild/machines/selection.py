"""Choose the machine of a build: a container if an engine has its image, otherwise the fallback.

The Docker library is loaded only if an engine may be available: importing it is slow.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tritonstack_local.codebuild.machines.base import MachineOrder, StartMachine

_USUAL_SOCKET = Path("/var/run/docker.sock")


def container_starter(otherwise: StartMachine) -> StartMachine:
    """Start builds in containers; use `otherwise` if no engine has the image."""

    def start(order: MachineOrder) -> Any:
        if _engine_may_answer():
            from tritonstack_local.codebuild.machines.containers import start_container  # noqa: PLC0415

            return start_container(order) or otherwise(order)
        return otherwise(order)

    return start


def remove_left_over(folder: Path) -> None:
    """Remove the containers left by an earlier cloud."""
    if _engine_may_answer():
        from tritonstack_local.codebuild.machines import containers  # noqa: PLC0415

        containers.remove_left_over(folder)


def _engine_may_answer() -> bool:
    return bool(os.environ.get("DOCKER_HOST")) or _USUAL_SOCKET.exists()
