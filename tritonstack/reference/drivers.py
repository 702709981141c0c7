"""The host's NVIDIA driver: which one a machine has, and whether a Triton release runs on it.

SageMaker starts each GPU family on a host image of its own choice unless InferenceAmiVersion names another,
and never changes that choice because a container would need it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonstack.reference.hardware import InstanceType
from tritonstack.reference.releases import TritonRelease


@dataclass(frozen=True)
class HostImage:
    """A value of InferenceAmiVersion, and what it brings."""

    name: str
    driver: int
    cuda: str


HOST_IMAGES: dict[str, HostImage] = {
    image.name: image
    for image in (
        HostImage("al2-ami-sagemaker-inference-gpu-2", 535, "12.2"),
        # As gpu-2, but the container's own CUDA compatibility libraries are not mounted for it.
        HostImage("al2-ami-sagemaker-inference-gpu-2-1", 535, "12.2"),
        HostImage("al2-ami-sagemaker-inference-gpu-3-1", 550, "12.4"),
        HostImage("al2023-ami-sagemaker-inference-gpu-4-1", 580, "13.0"),
    )
}
NEWEST = HOST_IMAGES["al2023-ami-sagemaker-inference-gpu-4-1"]

CUDA_12_DRIVER = 470
"""The oldest driver that runs NVIDIA's CUDA 12 images; every GPU host of AWS has it or a newer one."""

_LAST_DRIVERS = {"K80": 470}
"""GPUs that later drivers no longer know."""
_FIRST_DRIVERS = {"10.0": 570, "10.3": 570, "12.0": 570}
"""Compute capabilities that earlier drivers do not know yet."""
_FIRST_CUDA = {"10.0": "12.8", "10.3": "12.9", "12.0": "12.8"}
"""Compute capabilities that earlier releases of CUDA do not know yet."""


def least_driver(release: TritonRelease, *, sure: bool) -> int:
    """The oldest driver that a release runs on: surely, or as somebody has shown.

    CUDA 12: NVIDIA supports its images on data-centre GPUs from driver 470 on, by the compatibility libraries
    in the image. CUDA 13 is made for 580. AWS says that such images do not fit its default hosts with 470,
    runs one on 550 (gpu-3-1) in its own documentation, and nobody says that 535 does.
    """
    if _number(release.cuda) < _number("13.0"):
        return CUDA_12_DRIVER
    return 580 if sure else 550


def cuda_fault(instance: InstanceType, release: TritonRelease) -> str | None:
    """Why a release cannot use a machine's GPUs at all, whatever the driver."""
    capability = instance.family.compute_capability
    first = _FIRST_CUDA.get(capability or "")
    if first is None or _number(release.cuda) >= _number(first):
        return None
    return (
        f"Triton {release.name} carries CUDA {release.cuda}, and {instance.name}'s {instance.family.gpu} "
        f"(compute capability {capability}) needs CUDA {first}"
    )


def chosen_ami(instance: InstanceType, release: TritonRelease) -> str | None:
    """The host image that a machine needs for a release; None where SageMaker's own choice fits.

    Where AWS does not say which driver its choice brings, and where it may do but nobody promises it, nothing
    is left to chance: the newest image runs every release.
    """
    family = instance.family
    if family.accelerator != "gpu":
        return None
    if family.default_driver is not None and family.default_driver >= least_driver(release, sure=True):
        return None
    return NEWEST.name


def ami_fault(ami: str, instance: InstanceType, release: TritonRelease) -> tuple[str, str] | None:
    """Why a host image that a file names does not fit, and what to do; None if it fits.

    gpu-3-1 under a CUDA 13 release is let through: AWS's documentation does it, and whoever writes the image
    down has a reason.
    """
    gpu, driver = instance.family.gpu, HOST_IMAGES[ami].driver
    if gpu is None:
        return f"{instance.name} has no GPU, and {ami} is a host image for GPUs", "remove inference_ami"
    newer = f"write {NEWEST.name}, or remove inference_ami: the right one is chosen then"
    last = _LAST_DRIVERS.get(gpu, driver)
    if driver > last:
        return (
            f"{ami} has driver {driver}, and the last one for {instance.name}'s {gpu} is {last}",
            "remove inference_ami, or choose a newer GPU",
        )
    first = _FIRST_DRIVERS.get(instance.family.compute_capability or "", 0)
    if driver < first:
        return f"{ami} has driver {driver}, and the first one for {instance.name}'s {gpu} is {first}", newer
    if driver < least_driver(release, sure=False):
        return (
            f"{ami} has driver {driver}, too old for the CUDA {release.cuda} of Triton {release.name}",
            newer,
        )
    return None


def _number(cuda: str) -> tuple[int, ...]:
    return tuple(map(int, cuda.split(".")[:2]))
