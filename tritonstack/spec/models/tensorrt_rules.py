"""What TensorRT does from which version on, and what a model asks of it.

Read from `samples/common/sampleOptions.cpp` and `sampleEngines.cpp` of NVIDIA/TensorRT, branches release/8.6
to release/11.1, from the importers of onnx/onnx-tensorrt, and from Triton's tensorrt_backend.
"""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.documents import Fault
from tritonstack.reference.releases import TritonRelease
from tritonstack.spec.models.tensorrt import TensorRT
from tritonstack.spec.models.tolerance import WantedPrecision

Version = tuple[int, ...]

EXPLICIT_PROFILES = (10, 0)
"""Several optimisation profiles."""
BF16 = (10, 0)
INT64 = (10, 0)
"""Tensors of 64-bit integers; before, an engine's are of 32 bits."""
SAME_CAPABILITY = (10, 9)
"""Engines for every GPU of one compute capability."""
PARSES_LATER_OPSETS = (10, 0)
"""Before, the ONNX parser reads later operators as if they were of the newest opset that it knows."""
PRECISION_IN_GRAPH = (11,)
"""From here on the number format stands in the graph alone, and every flag for it is gone."""
AMPERE = 8.0


_TYPES = frozenset({"FP32", "FP16", "INT8", "UINT8", "INT32", "BOOL"})


def newest_opset(version: Version) -> int | None:
    """The newest ONNX operators that the parser reads rightly, where it does not refuse others itself."""
    return 17 if version < PARSES_LATER_OPSETS else None


def tensor_types(version: Version) -> frozenset[str]:
    """Types of inputs and outputs that Triton's TensorRT backend has."""
    return _TYPES | {"INT64"} if version >= INT64 else _TYPES


def tensorrt_faults(options: TensorRT, precision: WantedPrecision, release: TritonRelease) -> Iterator[Fault]:
    """What a model asks for that the TensorRT of a release does not do."""
    version = release.tensorrt_version
    carries = f"Triton {release.name} carries TensorRT {release.tensorrt}"
    if version >= PRECISION_IN_GRAPH:
        yield Fault(
            ("tensorrt",), f"{carries}, whose trtexec is not known yet", "choose an earlier triton_release"
        )
    if precision == "bf16" and version < BF16:
        yield Fault(
            ("precision",),
            f"{carries}, and trtexec builds bf16 from 10.0 on",
            "choose fp16, or a triton_release from 24.05 on",
        )
    if options.portability == "same-capability" and version < SAME_CAPABILITY:
        yield Fault(
            ("tensorrt", "portability"),
            f"{carries}, and engines for a whole compute capability need 10.9",
            "write `portability: exact`, or choose a triton_release from 25.04 on",
        )
    if len(options.profiles) > 1 and version < EXPLICIT_PROFILES:
        yield Fault(
            ("tensorrt", "profiles"),
            f"{carries}, whose trtexec builds one profile; several need 10.0",
            "keep one profile, or choose a triton_release from 24.05 on",
        )


def capability_faults(options: TensorRT, precision: WantedPrecision, capability: str) -> Iterator[Fault]:
    """What a model asks for that a GPU cannot be served with."""
    if precision == "bf16" and float(capability) < AMPERE:
        yield Fault(
            ("precision",),
            f"GPUs of compute capability {capability} do not compute in bf16; Ampere and later do",
            "choose fp16, or an instance type with a newer GPU",
        )
    if options.portability == "ampere-plus" and float(capability) < AMPERE:
        yield Fault(
            ("tensorrt", "portability"),
            f"engines for Ampere and later do not run on compute capability {capability}",
            "write `portability: exact`, or choose an instance type with a newer GPU",
        )
    if options.capabilities and capability not in options.capabilities:
        yield Fault(
            ("tensorrt", "capabilities"),
            f"an endpoint has GPUs of compute capability {capability}, which is not among them",
            f'add "{capability}"',
        )
