"""Check the host's NVIDIA driver before a GPU build: AWS does not say which one build machines have."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from model_build.errors import ModelBuildError
from tritonstack.base.error_kinds import MachineError
from tritonstack.facts.drivers import least_driver
from tritonstack.facts.releases import RELEASES

_QUERY = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
_RELEASE = "NVIDIA_TRITON_SERVER_VERSION"
"""Set in NVIDIA's images."""


class DriverError(ModelBuildError):
    """The host's driver cannot run the image's CUDA."""

    code = MachineError.code


def require_driver(targets: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Reject a GPU build if the host's driver is missing or too old for the image's CUDA.

    Skips the check outside NVIDIA's images, where the CUDA is not the release's.
    """
    release = RELEASES.get(environment.get(_RELEASE, ""))
    hardware = next((target.partition("-")[0] for target in targets if target.startswith("sm")), None)
    if release is None or hardware is None:
        return
    least = least_driver(release, sure=False)
    remedy = (
        f"set builds.machines.{hardware} in the environment file to a machine with driver {least} or "
        f"newer (`fleet`, `instance_type`, or `by_hand: true`), or choose a triton_release with an older CUDA"
    )
    needed = f"the CUDA {release.cuda} of Triton {release.name} needs NVIDIA driver {least} or newer"
    version = _driver_version()
    if version is None:
        raise DriverError(f"{needed}; nvidia-smi finds no driver on this host", remedy=remedy)
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) < least:
        raise DriverError(f"{needed}; this host has {version}", remedy=remedy)


def _driver_version() -> str | None:
    try:
        result = subprocess.run(_QUERY, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = result.stdout.split()
    return lines[0] if result.returncode == 0 and lines else None
