"""Instance families SageMaker hosting offers, and what a Triton image can do on each.

The list of sizes equals botocore's enumeration of ProductionVariantInstanceType (a test proves it), so
that a misspelt instance type is found without a call to AWS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Architecture = Literal["x86_64", "arm64"]
Accelerator = Literal["none", "gpu", "neuron", "gaudi"]


@dataclass(frozen=True)
class InstanceFamily:
    """Machines that differ in size only."""

    name: str
    sizes: tuple[str, ...]
    architecture: Architecture = "x86_64"
    accelerator: Accelerator = "none"
    gpu: str | None = None
    compute_capability: str | None = None
    default_driver: int | None = None
    """Host driver when no InferenceAmiVersion is chosen; None where AWS does not say."""
    local_storage: bool = False
    """NVMe disks encrypt themselves: SageMaker refuses a volume KMS key on these."""

    @property
    def runs_triton(self) -> bool:
        """SageMaker's Triton images are x86-64, for CPUs and NVIDIA GPUs."""
        return self.architecture == "x86_64" and self.accelerator in ("none", "gpu")


@dataclass(frozen=True)
class InstanceType:
    """One instance type, for example ml.g5.xlarge."""

    name: str
    family: InstanceFamily
    size: str


def _cpu(name: str, sizes: str, *, local_storage: bool = False) -> InstanceFamily:
    return InstanceFamily(name, tuple(sizes.split()), local_storage=local_storage)


def _arm(name: str, sizes: str, *, local_storage: bool = False) -> InstanceFamily:
    return InstanceFamily(name, tuple(sizes.split()), architecture="arm64", local_storage=local_storage)


def _gpu(
    name: str,
    sizes: str,
    gpu: str,
    capability: str,
    driver: int | None,
    *,
    architecture: Architecture = "x86_64",
) -> InstanceFamily:
    return InstanceFamily(
        name,
        tuple(sizes.split()),
        architecture=architecture,
        accelerator="gpu",
        gpu=gpu,
        compute_capability=capability,
        default_driver=driver,
        local_storage=name not in ("p2", "p3"),
    )


def _other(name: str, sizes: str, accelerator: Accelerator) -> InstanceFamily:
    return InstanceFamily(name, tuple(sizes.split()), accelerator=accelerator, local_storage=True)


_OLD = "xlarge 2xlarge 4xlarge"
_FIFTH = f"large {_OLD} 12xlarge 24xlarge"
_SIXTH = f"large {_OLD} 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge"
_SEVENTH = f"large {_OLD} 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"
_ARM = f"large {_OLD} 8xlarge 12xlarge 16xlarge"
_ARM_EIGHTH = f"medium {_ARM} 24xlarge 48xlarge"
_GPU = f"{_OLD} 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"

FAMILIES: dict[str, InstanceFamily] = {
    family.name: family
    for family in (
        _cpu("t2", "medium large xlarge 2xlarge"),
        _cpu("m4", f"{_OLD} 10xlarge 16xlarge"),
        _cpu("c4", f"large {_OLD} 8xlarge"),
        _cpu("m5", _FIFTH),
        _cpu("m5d", _FIFTH, local_storage=True),
        _cpu("r5", _FIFTH),
        _cpu("r5d", _FIFTH, local_storage=True),
        _cpu("c5", f"large {_OLD} 9xlarge 18xlarge"),
        _cpu("c5d", f"large {_OLD} 9xlarge 18xlarge", local_storage=True),
        _cpu("c6i", _SIXTH),
        _cpu("c6in", _SIXTH),
        _cpu("m6i", _SIXTH),
        _cpu("r6i", _SIXTH),
        _cpu("c7i", _SEVENTH),
        _cpu("m7i", _SEVENTH),
        _cpu("r7i", _SEVENTH),
        _arm("c6g", _ARM),
        _arm("c6gn", _ARM),
        _arm("c6gd", _ARM, local_storage=True),
        _arm("m6g", _ARM),
        _arm("m6gd", _ARM, local_storage=True),
        _arm("r6g", _ARM),
        _arm("r6gd", _ARM, local_storage=True),
        _arm("c7g", _ARM),
        _arm("r7gd", f"medium {_ARM}", local_storage=True),
        _arm("c8g", _ARM_EIGHTH),
        _arm("m8g", _ARM_EIGHTH),
        _arm("r8g", _ARM_EIGHTH),
        _gpu("p2", "xlarge 8xlarge 16xlarge", "K80", "3.7", 470),
        _gpu("p3", "2xlarge 8xlarge 16xlarge", "V100", "7.0", 470),
        _gpu("g4dn", f"{_OLD} 8xlarge 12xlarge 16xlarge", "T4", "7.5", 470),
        _gpu("g5", _GPU, "A10G", "8.6", 470),
        _gpu("g6", _GPU, "L4", "8.9", 535),
        _gpu("g6e", _GPU, "L40S", "8.9", None),
        _gpu("g7", "2xlarge 4xlarge 8xlarge 12xlarge 24xlarge 48xlarge", "RTX PRO Blackwell", "12.0", None),
        _gpu("g7e", "2xlarge 4xlarge 8xlarge 12xlarge 24xlarge 48xlarge", "RTX PRO 6000", "12.0", None),
        _gpu("p4d", "24xlarge", "A100", "8.0", 470),
        _gpu("p4de", "24xlarge", "A100", "8.0", 470),
        _gpu("p5", "48xlarge 4xlarge", "H100", "9.0", 535),
        _gpu("p5e", "48xlarge", "H200", "9.0", 550),
        _gpu("p5en", "48xlarge", "H200", "9.0", 550),
        _gpu("p6-b200", "48xlarge", "B200", "10.0", None),
        _gpu("p6-b300", "48xlarge", "B300", "10.3", None),
        _gpu("p6e-gb200", "36xlarge", "GB200", "10.0", None, architecture="arm64"),
        _other("inf1", "xlarge 2xlarge 6xlarge 24xlarge", "neuron"),
        _other("inf2", "xlarge 8xlarge 24xlarge 48xlarge", "neuron"),
        _other("trn1", "2xlarge 32xlarge", "neuron"),
        _other("trn1n", "32xlarge", "neuron"),
        _other("trn2", "48xlarge", "neuron"),
        _other("dl1", "24xlarge", "gaudi"),
    )
}

INSTANCE_TYPES: dict[str, InstanceType] = {
    f"ml.{family.name}.{size}": InstanceType(f"ml.{family.name}.{size}", family, size)
    for family in FAMILIES.values()
    for size in family.sizes
}
