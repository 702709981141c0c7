"""Feature limits of TensorRT versions and GPUs, checked against a model's options.

Read from `samples/common/sampleOptions.cpp` and `sampleEngines.cpp` of NVIDIA/TensorRT, branches release/8.6
to release/11.1, from the importers of onnx/onnx-tensorrt, and from Triton's tensorrt_backend.
"""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.error_kinds import InstanceTypeError, UnavailableOptionError
from tritonstack.base.yaml import Violation
from tritonstack.facts.releases import TritonRelease
from tritonstack.files.model.fields import ModelFields
from tritonstack.files.model.tensorrt import TensorRT
from tritonstack.files.model.tolerance import PrecisionOption
from tritonstack.files.model.triton_options import Optimization

# Requirements of Triton's openvino backend, which serves `precision: bf16` on CPUs.
#
# With `max_batch_size`, the backend fixes the graph's batch to that size and rejects smaller requests
# (src/openvino.cc, r23.12 to r26.05). Without it, the backend accepts every batch, and Triton combines no
# requests.


OPENVINO = "openvino"
OPENVINO_SINCE = "24.03"
"""First release whose openvino backend loads graphs with variable dimensions."""
PARAMETERS = ("COMPILATION_NUM_THREADS", "INFERENCE_NUM_THREADS", "NUM_STREAMS", "PERFORMANCE_HINT")
"""The backend's parameters that change no answer."""
_NOT_COMBINED = "Triton's openvino backend serves bf16, and combines no requests"
_OTHERS = "Triton's openvino backend serves bf16, and this is a setting of its ONNX Runtime backend"


def openvino_violations(spec: ModelFields) -> Iterator[Violation]:
    """Yield the settings of an ONNX model that prevent serving it in OpenVINO."""
    triton, batching = spec.triton, spec.batching
    options: list[tuple[tuple[str, ...], str]] = []
    if triton.config is not None:
        options.append((("triton", "config"), _OTHERS))
    if triton.optimization != Optimization():
        options.append((("triton", "optimization"), _OTHERS))
    options += [
        (("triton", "parameters", key), _OTHERS) for key in triton.parameters if key not in PARAMETERS
    ]
    if triton.sequences is not None:
        options.append(
            (("triton", "sequences"), "Triton's openvino backend serves bf16, and has no sequences")
        )
    if batching.queue_delay_us:
        options.append((("batching", "queue_delay_us"), _NOT_COMBINED))
    if batching.preferred_sizes:
        options.append((("batching", "preferred_sizes"), _NOT_COMBINED))
    for place, message in options:
        yield UnavailableOptionError.at(place, message, "remove it, or choose another precision")


Version = tuple[int, ...]

EXPLICIT_PROFILES = (10, 0)
"""Multiple optimization profiles."""
BF16 = (10, 0)
INT64 = (10, 0)
"""Tensors of 64-bit integers; earlier versions convert them to 32 bits."""
SAME_CAPABILITY = (10, 9)
"""Engines for all GPUs of one compute capability."""
PARSES_LATER_OPSETS = (10, 0)
"""Earlier ONNX parsers treat newer operators as if they had the newest opset they know."""
PRECISION_IN_GRAPH = (11,)
"""From this version on, the graph alone sets the number format; precision flags are removed."""
AMPERE = 8.0


_TYPES = frozenset({"FP32", "FP16", "INT8", "UINT8", "INT32", "BOOL"})


def newest_opset(version: Version) -> int | None:
    """Return the newest ONNX opset that the parser supports; None if it rejects others itself."""
    return 17 if version < PARSES_LATER_OPSETS else None


def tensor_types(version: Version) -> frozenset[str]:
    """Return the datatypes of inputs and outputs that Triton's TensorRT backend supports."""
    return _TYPES | {"INT64"} if version >= INT64 else _TYPES


def tensorrt_violations(
    options: TensorRT, precision: PrecisionOption, release: TritonRelease
) -> Iterator[Violation]:
    """Yield options that the TensorRT version of a release does not support."""
    version = release.tensorrt_version
    carries = f"Triton {release.name} has TensorRT {release.tensorrt}"
    if version >= PRECISION_IN_GRAPH:
        yield UnavailableOptionError.at(
            ("tensorrt",), f"{carries}, which is not supported yet", "choose an earlier triton_release"
        )
    if precision == "bf16" and version < BF16:
        yield UnavailableOptionError.at(
            ("precision",),
            f"{carries}, but bf16 needs 10.0 or later",
            "choose fp16, or triton_release 24.05 or later",
        )
    if options.portability == "same-capability" and version < SAME_CAPABILITY:
        yield UnavailableOptionError.at(
            ("tensorrt", "portability"),
            f"{carries}, but engines for a whole compute capability need 10.9",
            "write `portability: exact`, or choose triton_release 25.04 or later",
        )
    if len(options.profiles) > 1 and version < EXPLICIT_PROFILES:
        yield UnavailableOptionError.at(
            ("tensorrt", "profiles"),
            f"{carries}, but several profiles need 10.0",
            "keep one profile, or choose triton_release 24.05 or later",
        )


def capability_violations(
    options: TensorRT, precision: PrecisionOption, capability: str
) -> Iterator[Violation]:
    """Yield options that a GPU does not support."""
    if precision == "bf16" and float(capability) < AMPERE:
        yield UnavailableOptionError.at(
            ("precision",),
            f"GPUs of compute capability {capability} do not support bf16; Ampere and later do",
            "choose fp16, or an instance type with a newer GPU",
        )
    if options.portability == "ampere-plus" and float(capability) < AMPERE:
        yield InstanceTypeError.at(
            ("tensorrt", "portability"),
            f"engines for Ampere and later do not run on compute capability {capability}",
            "write `portability: exact`, or choose an instance type with a newer GPU",
        )
    if options.capabilities and capability not in options.capabilities:
        yield InstanceTypeError.at(
            ("tensorrt", "capabilities"),
            f"an endpoint uses GPUs of compute capability {capability}, which is not in the list",
            f'add "{capability}"',
        )
