"""Instance families of SageMaker hosting, and which of them run Triton images.

A test checks the sizes against botocore's enumeration of ProductionVariantInstanceType, so misspelled
instance types are found without calling AWS. vCPUs, memory, and GPUs are those of the EC2 type of the same
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Architecture = Literal["x86_64", "arm64"]
Accelerator = Literal["none", "gpu", "neuron", "gaudi"]


@dataclass(frozen=True)
class InstanceFamily:
    """Instance types that differ only in size."""

    name: str
    gpu_counts: Mapping[str, int] = field(hash=False)
    """Number of GPUs per size."""
    memory_per_vcpu: float
    """GiB; exceptions are in _MEMORY_GIB."""
    architecture: Architecture = "x86_64"
    accelerator: Accelerator = "none"
    gpu: str | None = None
    compute_capability: str | None = None
    default_driver: int | None = None
    """Default host driver without InferenceAmiVersion; None if AWS does not document it."""
    local_storage: bool = False
    """NVMe disks encrypt themselves: SageMaker rejects a volume KMS key on these."""

    @property
    def sizes(self) -> tuple[str, ...]:
        """All sizes."""
        return tuple(self.gpu_counts)

    @property
    def hardware(self) -> str:
        """`cpu`, or the GPU's compute capability in target form: sm86."""
        return f"sm{self.compute_capability.replace('.', '')}" if self.compute_capability else "cpu"

    @property
    def runs_triton(self) -> bool:
        """Whether SageMaker's Triton images run on it: x86-64, with CPUs or NVIDIA GPUs."""
        return self.architecture == "x86_64" and self.accelerator in ("none", "gpu")

    @property
    def burstable(self) -> bool:
        """Whether it uses CPU credits; SageMaker does not scale such instances automatically."""
        return self.name.startswith("t")


@dataclass(frozen=True)
class InstanceType:
    """One instance type, for example ml.g5.xlarge."""

    name: str
    family: InstanceFamily
    size: str

    @property
    def gpus(self) -> int:
        """Number of NVIDIA GPUs."""
        return self.family.gpu_counts[self.size]

    @property
    def vcpus(self) -> int:
        """Number of vCPUs: four for xlarge, and so on."""
        if self.name in _VCPUS:
            return _VCPUS[self.name]
        times = self.size.removesuffix("xlarge")
        return _SMALL_SIZES[self.size] if self.size in _SMALL_SIZES else 4 * int(times or 1)

    @property
    def memory_gib(self) -> float:
        """Memory in GiB."""
        return _MEMORY_GIB.get(self.name, self.vcpus * self.family.memory_per_vcpu)


_SMALL_SIZES = {"medium": 1, "large": 2}
_VCPUS = {"ml.t2.medium": 2, "ml.c4.8xlarge": 36}
"""vCPUs of sizes whose name does not imply them."""
_MEMORY_GIB: dict[str, float] = {
    "ml.t2.medium": 4,
    "ml.c4.8xlarge": 60,
    "ml.p2.16xlarge": 732,
    "ml.g7e.12xlarge": 512,
    "ml.g7e.24xlarge": 1024,
    "ml.g7e.48xlarge": 2048,
    "ml.p5.48xlarge": 2048,
    "ml.p5e.48xlarge": 2048,
    "ml.p5en.48xlarge": 2048,
    "ml.p6-b200.48xlarge": 2048,
    "ml.p6-b300.48xlarge": 4096,
    "ml.p6e-gb200.36xlarge": 960,
    "ml.trn2.48xlarge": 2048,
}
"""Memory of sizes that differ from their family's ratio."""


def _no_gpus(sizes: str) -> dict[str, int]:
    return dict.fromkeys(sizes.split(), 0)


def _gpu_counts(sizes: str) -> dict[str, int]:
    """Parse GPU counts: `xlarge 12xlarge:4` means one GPU in xlarge, four in 12xlarge."""
    pairs = (size.partition(":") for size in sizes.split())
    return {size: int(count or 1) for size, _, count in pairs}


def _cpu(name: str, sizes: str, memory: float, *, local_storage: bool = False) -> InstanceFamily:
    return InstanceFamily(name, _no_gpus(sizes), memory, local_storage=local_storage)


def _arm(name: str, sizes: str, memory: float, *, local_storage: bool = False) -> InstanceFamily:
    return InstanceFamily(name, _no_gpus(sizes), memory, architecture="arm64", local_storage=local_storage)


@dataclass(frozen=True)
class _Gpu:
    name: str
    capability: str


def _gpu(
    name: str,
    sizes: str,
    memory: float,
    gpu: _Gpu,
    *,
    driver: int | None,
    architecture: Architecture = "x86_64",
) -> InstanceFamily:
    return InstanceFamily(
        name,
        _gpu_counts(sizes),
        memory,
        architecture=architecture,
        accelerator="gpu",
        gpu=gpu.name,
        compute_capability=gpu.capability,
        default_driver=driver,
        local_storage=name not in ("p2", "p3"),
    )


def _other(name: str, sizes: str, memory: float, accelerator: Accelerator) -> InstanceFamily:
    return InstanceFamily(name, _no_gpus(sizes), memory, accelerator=accelerator, local_storage=True)


_OLD = "xlarge 2xlarge 4xlarge"
_FIFTH = f"large {_OLD} 12xlarge 24xlarge"
_SIXTH = f"large {_OLD} 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge"
_SEVENTH = f"large {_OLD} 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"
_ARM = f"large {_OLD} 8xlarge 12xlarge 16xlarge"
_ARM_EIGHTH = f"medium {_ARM} 24xlarge 48xlarge"
_GPU = f"{_OLD} 8xlarge 12xlarge:4 16xlarge 24xlarge:4 48xlarge:8"
_GPU_SEVENTH = "2xlarge 4xlarge 8xlarge 12xlarge:2 24xlarge:4 48xlarge:8"

FAMILIES: dict[str, InstanceFamily] = {
    family.name: family
    for family in (
        _cpu("t2", "medium large xlarge 2xlarge", 4),
        _cpu("m4", f"{_OLD} 10xlarge 16xlarge", 4),
        _cpu("c4", f"large {_OLD} 8xlarge", 1.875),
        _cpu("m5", _FIFTH, 4),
        _cpu("m5d", _FIFTH, 4, local_storage=True),
        _cpu("r5", _FIFTH, 8),
        _cpu("r5d", _FIFTH, 8, local_storage=True),
        _cpu("c5", f"large {_OLD} 9xlarge 18xlarge", 2),
        _cpu("c5d", f"large {_OLD} 9xlarge 18xlarge", 2, local_storage=True),
        _cpu("c6i", _SIXTH, 2),
        _cpu("c6in", _SIXTH, 2),
        _cpu("m6i", _SIXTH, 4),
        _cpu("r6i", _SIXTH, 8),
        _cpu("c7i", _SEVENTH, 2),
        _cpu("m7i", _SEVENTH, 4),
        _cpu("r7i", _SEVENTH, 8),
        _arm("c6g", _ARM, 2),
        _arm("c6gn", _ARM, 2),
        _arm("c6gd", _ARM, 2, local_storage=True),
        _arm("m6g", _ARM, 4),
        _arm("m6gd", _ARM, 4, local_storage=True),
        _arm("r6g", _ARM, 8),
        _arm("r6gd", _ARM, 8, local_storage=True),
        _arm("c7g", _ARM, 2),
        _arm("r7gd", f"medium {_ARM}", 8, local_storage=True),
        _arm("c8g", _ARM_EIGHTH, 2),
        _arm("m8g", _ARM_EIGHTH, 4),
        _arm("r8g", _ARM_EIGHTH, 8),
        _gpu("p2", "xlarge 8xlarge:8 16xlarge:16", 15.25, _Gpu("K80", "3.7"), driver=470),
        _gpu("p3", "2xlarge 8xlarge:4 16xlarge:8", 7.625, _Gpu("V100", "7.0"), driver=470),
        _gpu("g4dn", f"{_OLD} 8xlarge 12xlarge:4 16xlarge", 4, _Gpu("T4", "7.5"), driver=470),
        _gpu("g5", _GPU, 4, _Gpu("A10G", "8.6"), driver=470),
        _gpu("g6", _GPU, 4, _Gpu("L4", "8.9"), driver=535),
        _gpu("g6e", _GPU, 8, _Gpu("L40S", "8.9"), driver=None),
        _gpu("g7", _GPU_SEVENTH, 4, _Gpu("RTX PRO 4500", "12.0"), driver=None),
        _gpu("g7e", _GPU_SEVENTH, 8, _Gpu("RTX PRO Server 6000", "12.0"), driver=None),
        _gpu("p4d", "24xlarge:8", 12, _Gpu("A100", "8.0"), driver=470),
        _gpu("p4de", "24xlarge:8", 12, _Gpu("A100", "8.0"), driver=470),
        _gpu("p5", "48xlarge:8 4xlarge", 16, _Gpu("H100", "9.0"), driver=535),
        _gpu("p5e", "48xlarge:8", 16, _Gpu("H200", "9.0"), driver=550),
        _gpu("p5en", "48xlarge:8", 16, _Gpu("H200", "9.0"), driver=550),
        _gpu("p6-b200", "48xlarge:8", 16, _Gpu("B200", "10.0"), driver=None),
        _gpu("p6-b300", "48xlarge:8", 16, _Gpu("B300", "10.3"), driver=None),
        _gpu("p6e-gb200", "36xlarge:4", 8, _Gpu("GB200", "10.0"), driver=None, architecture="arm64"),
        _other("inf1", "xlarge 2xlarge 6xlarge 24xlarge", 2, "neuron"),
        _other("inf2", "xlarge 8xlarge 24xlarge 48xlarge", 4, "neuron"),
        _other("trn1", "2xlarge 32xlarge", 4, "neuron"),
        _other("trn1n", "32xlarge", 4, "neuron"),
        _other("trn2", "48xlarge", 16, "neuron"),
        _other("dl1", "24xlarge", 8, "gaudi"),
    )
}

INSTANCE_TYPES: dict[str, InstanceType] = {
    f"ml.{family.name}.{size}": InstanceType(f"ml.{family.name}.{size}", family, size)
    for family in FAMILIES.values()
    for size in family.sizes
}
