"""Metrics that count Triton's errors in an endpoint's log.

One log line is one event. Triton's error lines begin with E, the month, and the day: `E1121 10:00:00.123456 2
model_lifecycle.cc:642] "failed to load 'bert' version 1: …"`.
"""

from __future__ import annotations

from enum import StrEnum

from tritonstack.constructs.monitoring.monitored import Metric, Monitored, Series

_NAMESPACE = "Tritonstack"

_ERROR = r"^E\d\d\d\d\s"
_MESSAGE = rf"{_ERROR}.+\]\s\W*"

_OUT_OF_MEMORY = (
    "out of memory",
    "Out of memory",
    "Out Of Memory",
    "OutOfMemory",
    "OUT_OF_MEMORY",
    "MemoryError",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "Failed to allocate memory",
    "failed to allocate memory",
    "No space left on device",
)
"""The texts with which Triton reports a lack of memory, if they have no other meaning."""


class LogCount(StrEnum):
    """What is counted in the log; also the end of the metric's name."""

    ERRORS = "TritonErrors"
    FAILED_LOADS = "TritonFailedLoads"
    OUT_OF_MEMORY = "TritonOutOfMemory"
    UNHEALTHY_STUBS = "TritonUnhealthyStubs"


FILTER_PATTERNS: dict[LogCount, str] = {
    # On instances without a GPU, every server logs one startup error: CudaDriverHelper has not been
    # initialized. Filter patterns have no negation, of terms or of character sets: each alternative ends one
    # letter later and lists the letters that may be there.
    LogCount.ERRORS: "%"
    + "|".join(
        _MESSAGE + start for start in ("[ABD-Za-z0-9_]", "C[A-Za-tv-z0-9_]", "Cu[A-Za-ce-z0-9_]", r"Cu?\W")
    )
    + "%",
    LogCount.FAILED_LOADS: rf"%{_ERROR}.+failed\sto\sload%",
    LogCount.OUT_OF_MEMORY: " ".join(f'?"{text}"' for text in _OUT_OF_MEMORY),
    LogCount.UNHEALTHY_STUBS: '"is not healthy"',
}
"""Return the filter pattern for CloudWatch Logs."""

ERROR_LINES = r"""fields @timestamp, @logStream, @message
| filter @message like /^E\d{4} / and @message not like /CudaDriverHelper/
| sort @timestamp desc
| limit 50"""
"""Return the same errors as a CloudWatch Logs Insights query."""


def log_count(monitored: Monitored, count: LogCount) -> Series:
    """Return the count of a message in an endpoint's log.

    The endpoint is part of the namespace: only metrics without dimensions can default to 0.
    """
    return Series(Metric(f"{_NAMESPACE}/{monitored.endpoint_name}", count.value), "Sum")
