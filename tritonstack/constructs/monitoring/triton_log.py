"""What Triton says of its own faults in an endpoint's log, and the metrics that count it.

A line of the log is one event. Triton's errors begin with E, the month and the day: `E1121 10:00:00.123456
2 model_lifecycle.cc:642] "failed to load 'bert' version 1: …"`.
"""

from __future__ import annotations

from enum import StrEnum

from tritonstack.constructs.monitoring.metrics import Metric, Series
from tritonstack.constructs.monitoring.monitored import Watched

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
"""The texts that Triton itself takes for a lack of memory, as far as they mean nothing else."""


class LogCount(StrEnum):
    """What is counted in the log; the end of a metric's name."""

    ERRORS = "TritonErrors"
    FAILED_LOADS = "TritonFailedLoads"
    OUT_OF_MEMORY = "TritonOutOfMemory"
    UNHEALTHY_STUBS = "TritonUnhealthyStubs"


FILTER_PATTERNS: dict[LogCount, str] = {
    # Every server on a machine without a GPU says at its start, as an error, that CudaDriverHelper has not
    # been initialized. CloudWatch's expressions know no "unless": each alternative ends one letter later.
    LogCount.ERRORS: f"%{_MESSAGE}[ABD-Za-z0-9_]|{_MESSAGE}C[^u]|{_MESSAGE}Cu[^d]%",
    LogCount.FAILED_LOADS: rf"%{_ERROR}.+failed\sto\sload%",
    LogCount.OUT_OF_MEMORY: " ".join(f'?"{text}"' for text in _OUT_OF_MEMORY),
    LogCount.UNHEALTHY_STUBS: '"is not healthy"',
}
"""What CloudWatch Logs looks for, in its own language."""

ERROR_LINES = r"""fields @timestamp, @logStream, @message
| filter @message like /^E\d{4} / and @message not like /CudaDriverHelper/
| sort @timestamp desc
| limit 50"""
"""The same errors, as a query of CloudWatch Logs Insights."""


def log_count(watched: Watched, count: LogCount) -> Series:
    """How often something was said in an endpoint's log.

    The endpoint is a part of the namespace: only metrics without dimensions are 0 where nothing was said.
    """
    return Series(Metric(f"{_NAMESPACE}/{watched.endpoint_name}", count.value), "Sum")
