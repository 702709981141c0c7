"""NVIDIA host drivers: which one an instance type has, and whether a Triton release runs on it.

SageMaker selects the host image by GPU family, unless InferenceAmiVersion names another one. It does not
consider what the container needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonstack.facts.hardware import InstanceType
from tritonstack.facts.releases import TritonRelease


@dataclass(frozen=True)
class HostImage:
    """A value of InferenceAmiVersion, with its driver and CUDA version."""

    name: str
    driver: int
    cuda: str


HOST_IMAGES: dict[str, HostImage] = {
    image.name: image
    for image in (
        HostImage("al2-ami-sagemaker-inference-gpu-2", 535, "12.2"),
        # Like gpu-2, but SageMaker does not mount the container's own CUDA compatibility libraries.
        HostImage("al2-ami-sagemaker-inference-gpu-2-1", 535, "12.2"),
        HostImage("al2-ami-sagemaker-inference-gpu-3-1", 550, "12.4"),
        HostImage("al2023-ami-sagemaker-inference-gpu-4-1", 580, "13.0"),
    )
}
NEWEST = HOST_IMAGES["al2023-ami-sagemaker-inference-gpu-4-1"]

CUDA_12_DRIVER = 470
"""The oldest driver that runs NVIDIA's CUDA 12 images; every AWS GPU host has this driver or a newer one."""

_LAST_DRIVERS = {"K80": 470}
"""Last driver that supports the GPU."""
_FIRST_DRIVERS = {"10.0": 570, "10.3": 570, "12.0": 570}
"""First driver that supports the compute capability."""
_DRIVERS_ON_EKS = {"g7": 595}
"""Drivers that AWS's EKS documentation asks for, where SageMaker's says nothing (NVIDIA/aicr #2743)."""
_FIRST_CUDA = {"10.0": "12.8", "10.3": "12.9", "12.0": "12.8"}
"""First CUDA release that supports the compute capability."""


def least_driver(release: TritonRelease, *, sure: bool) -> int:
    """Return the oldest driver that a release runs on; `sure`: guaranteed, otherwise demonstrated.

    CUDA 12: NVIDIA supports its images on data-center GPUs from driver 470 on, through the compatibility
    libraries in the image. CUDA 13 requires 580. AWS states that such images do not work on its default hosts
    with 470, and its own documentation runs one on 550 (gpu-3-1). Nothing is documented for 535.
    """
    if _number(release.cuda) < _number("13.0"):
        return CUDA_12_DRIVER
    return 580 if sure else 550


def cuda_violation(instance: InstanceType, release: TritonRelease) -> str | None:
    """Return why a release cannot use an instance type's GPUs with any driver; None if it can."""
    capability = instance.family.compute_capability
    first = _FIRST_CUDA.get(capability or "")
    if first is None or _number(release.cuda) >= _number(first):
        return None
    return (
        f"Triton {release.name} has CUDA {release.cuda}, but {instance.name}'s {instance.family.gpu} "
        f"(compute capability {capability}) needs CUDA {first}"
    )


def chosen_ami(instance: InstanceType, release: TritonRelease) -> str | None:
    """Return the host image that an instance type needs for a release; None if SageMaker's default works.

    If AWS does not document the default's driver, or support is not guaranteed, use the newest image: its
    driver is new enough for every release. See `doubtful_ami`.
    """
    family = instance.family
    if family.accelerator != "gpu":
        return None
    if family.default_driver is not None and family.default_driver >= least_driver(release, sure=True):
        return None
    return NEWEST.name


def ami_violation(ami: str, instance: InstanceType, release: TritonRelease) -> tuple[str, str] | None:
    """Return why a host image does not work, and the remedy; None if it works.

    gpu-3-1 with a CUDA 13 release is accepted: AWS's documentation uses it.
    """
    gpu, driver = instance.family.gpu, HOST_IMAGES[ami].driver
    if gpu is None:
        return f"{instance.name} has no GPU, but {ami} is a GPU host image", "remove inference_ami"
    newer = f"write {NEWEST.name}, or remove inference_ami to choose it automatically"
    last = _LAST_DRIVERS.get(gpu, driver)
    if driver > last:
        return (
            f"{ami} has driver {driver}, but {instance.name}'s {gpu} is supported only up to {last}",
            "remove inference_ami, or choose a newer GPU",
        )
    first = _FIRST_DRIVERS.get(instance.family.compute_capability or "", 0)
    if driver < first:
        return f"{ami} has driver {driver}, but {instance.name}'s {gpu} requires at least {first}", newer
    if driver < least_driver(release, sure=False):
        return (
            f"{ami} has driver {driver}, too old for CUDA {release.cuda} in Triton {release.name}",
            newer,
        )
    return None


def doubtful_ami(ami: str, instance: InstanceType, release: TritonRelease) -> str | None:
    """Return why nobody guarantees a release on an instance type with a host image; None if somebody does.

    Containers with CUDA 12 on the newest image: reports contradict each other. One stayed in Creating without
    a log (deep-learning-containers #6187), other samples need this image.
    """
    driver = HOST_IMAGES[ami].driver
    if ami == NEWEST.name and _number(release.cuda) < _number(NEWEST.cuda):
        return f"nobody documents {ami} with CUDA {release.cuda}, which Triton {release.name} has"
    needed = _DRIVERS_ON_EKS.get(instance.family.name)
    if needed and driver < needed:
        return f"AWS asks for driver {needed} on {instance.family.name} in EKS, and {ami} has {driver}"
    return None


def _number(cuda: str) -> tuple[int, ...]:
    return tuple(map(int, cuda.split(".")[:2]))
