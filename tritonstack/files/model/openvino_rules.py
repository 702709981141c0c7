"""Requirements of Triton's openvino backend, which serves `precision: bf16` on CPUs.

With `max_batch_size`, the backend fixes the graph's batch to that size and rejects smaller requests
(src/openvino.cc, r23.12 to r26.05). Without it, the backend accepts every batch, and Triton combines no
requests.
"""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.error_kinds import UnavailableOptionError
from tritonstack.base.yaml import Violation
from tritonstack.files.model.fields import ModelFields
from tritonstack.files.model.triton_options import Optimization

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
