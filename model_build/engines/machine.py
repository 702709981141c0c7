"""What the machine that builds has: a GPU, and TensorRT beside it. The one place that looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tritonstack.base.errors import UsageError
from tritonstack.reference.targets import Target
from tritonstack.spec.models.model import ModelSpec

DEVICE = Path("/dev/nvidiactl")
TRTEXEC = Path("/usr/src/tensorrt/bin/trtexec")
"""Where Triton's images have it."""
GPU_FILES = "/proc/driver/nvidia/gpus"


def has_gpu() -> bool:
    """Whether there is an NVIDIA GPU with its driver."""
    return DEVICE.exists()


def find_trtexec() -> Path | None:
    """The image's own trtexec; None where there is no TensorRT."""
    return TRTEXEC if TRTEXEC.is_file() else None


def require_trtexec() -> Path:
    """The image's own trtexec; engines of another TensorRT would not run there, so nothing else will do."""
    trtexec = find_trtexec()
    if trtexec is None:
        raise UsageError(
            f"this machine has no TensorRT ({TRTEXEC}), and engines are built by that of the image that "
            "serves them",
            remedy="build it there: without --local, `tritonstack build` does",
        )
    return trtexec


def require_hardware(spec: ModelSpec, targets: Sequence[Target]) -> None:
    """Raise UsageError for a target that the model is not built for, or that cannot be built for here."""
    for target in targets:
        kind = "cpu" if target.hardware == "cpu" else "gpu"
        if kind not in spec.builds_for:
            raise UsageError(
                f"{spec.name!r} is built for {' and '.join(spec.builds_for)}, not for {target}",
                remedy="choose another instance type for its endpoint, or another precision or format",
            )
        if kind == "gpu" and not has_gpu():
            raise UsageError(
                f"this machine has no GPU, and {target} is built and checked on one",
                remedy="build it where there is one: without --local, `tritonstack build` does",
            )
    if spec.format == "tensorrt":
        require_trtexec()


def gpu_name() -> str:
    """The first GPU's name as its driver tells it, such as NVIDIA A10G; `unknown` where it does not."""
    for file in sorted(Path(GPU_FILES).glob("*/information")):
        for line in file.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key == "Model":
                return value.strip()
    return "unknown"
