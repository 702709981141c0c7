"""Detect the GPU and TensorRT of the build machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tritonstack.base.error_kinds import MachineError
from tritonstack.facts.targets import Target
from tritonstack.files.model.model import ModelSpec

DEVICE = Path("/dev/nvidiactl")
TRTEXEC = Path("/usr/src/tensorrt/bin/trtexec")
"""Path in Triton's images."""
GPU_FILES = "/proc/driver/nvidia/gpus"


def has_gpu() -> bool:
    """Return whether there is an NVIDIA GPU with its driver."""
    return DEVICE.exists()


def require_trtexec() -> Path:
    """Return the image's trtexec; only engines of the image's own TensorRT run there."""
    if not TRTEXEC.is_file():
        raise MachineError(
            f"this machine has no TensorRT ({TRTEXEC}); engines must be built in the image that serves them",
            remedy="build in AWS: run `tritonstack build` without --local",
        )
    return TRTEXEC


def require_hardware(spec: ModelSpec, targets: Sequence[Target]) -> None:
    """Raise UsageError for a target that the model does not support, or this machine cannot build for."""
    for target in targets:
        kind = "gpu" if target.has_gpu else "cpu"
        if kind not in spec.builds_for:
            raise MachineError(
                f"{spec.name!r} is built for {' and '.join(spec.builds_for)}, not for {target}",
                remedy="choose another instance type for its endpoint, or another precision or format",
            )
        if kind == "gpu" and not has_gpu():
            raise MachineError(
                f"this machine has no GPU, which {target} needs",
                remedy="build in AWS: run `tritonstack build` without --local",
            )
    if spec.format == "tensorrt":
        require_trtexec()


def gpu_name() -> str:
    """Return the first GPU's name from its driver, such as NVIDIA A10G, or `unknown`."""
    for file in sorted(Path(GPU_FILES).glob("*/information")):
        for line in file.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key == "Model":
                return value.strip()
    return "unknown"
