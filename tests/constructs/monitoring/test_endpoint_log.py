"""The log group, and the log lines that its filters count.

The lines are from real servers of 2.51 without a GPU; a few of other versions are modeled on them.
"""

import re

import pytest

from tritonstack.constructs.monitoring.monitored import FILTER_PATTERNS, LogCount

NO_GPU = 'E1121 15:11:34.260393 2 server.cc:241] "CudaDriverHelper has not been initialized."'
FAILED_INSTANCE = (
    'E1121 15:11:35.866018 2 backend_model.cc:692] "ERROR: Failed to create instance: RuntimeError: no'
    r' weights here\n\nAt:\n  /opt/ml/model/negate/1/model.py(7): initialize\n"'
)
FAILED_LOAD = (
    "E1121 15:11:35.866179 2 model_lifecycle.cc:642] \"failed to load '/opt/ml/model/::negate' version 1: "
    r'Internal: RuntimeError: no weights here\n\nAt:\n  /opt/ml/model/negate/1/model.py(7): initialize\n"'
)
TOLD_LOAD = "I1121 15:11:35.866198 2 model_lifecycle.cc:777] \"failed to load '/opt/ml/model/::negate'\""
NO_MEMORY = (
    "E1121 15:11:48.817131 2 pb_stub.cc:714] \"Failed to process the request(s) for model 'negate_0', message"
    r': MemoryError: out of memory\n\nAt:\n  /opt/ml/model/negate/1/model.py(7): execute\n"'
)
NO_GPU_MEMORY = (
    "E1121 15:11:53.279687 2 pb_stub.cc:714] \"Failed to process the request(s) for model 'negate_0', message"
    r": RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n\nAt:\n  model.py(7): execute\n" + '"'
)
PINNED = (
    'W1121 15:11:34.260120 2 pinned_memory_manager.cc:273] "Unable to allocate pinned system memory, pinned '
    'memory pool will not be available: CUDA driver version is insufficient for CUDA runtime version"'
)
STARTED = 'I1121 15:11:38.286384 2 sagemaker_server.cc:293] "Started Sagemaker HTTPService at 0.0.0.0:8080"'
TABLE = "| /opt/ml/model/::negate | 1       | UNAVAILABLE: Internal: RuntimeError: no weights here |"
SIGNAL = "Signal (15) received."

# Made up: an older release writes no quotes.
OLD_NO_GPU = "E0102 03:04:05.678901 1 server.cc:235] CudaDriverHelper has not been initialized."
OLD_PLAN = (
    "E0102 03:04:05.678901 41 logging.cc:40] 6: The engine plan file is generated on an incompatible device, "
    "expecting compute 8.6 got compute 7.5, please rebuild."
)
CUDA = 'E0102 03:04:05.678901 41 cuda_utils.cc:12] "CUDA error: an illegal memory access was encountered"'
PUNCTUATED = 'E0102 03:04:05.678901 41 cuda_utils.cc:12] "Cu: an illegal memory access was encountered"'
CUBLAS = 'E0102 03:04:05.678901 41 dispatch.cc:9] "Cublas failed: CUBLAS_STATUS_ALLOC_FAILED"'
STUB = (
    "E0102 03:04:05.678901 41 python_be.cc:1990] \"Model 'negate' version 1 is not ready: Stub process "
    "'negate_0_0' is not healthy.\""
)
DISK = "tar: env/lib/libtorch.so: Cannot write: No space left on device"
FOREIGN = "Exception in thread E1234 of somebody's own code"

COUNTED = {
    NO_GPU: set(),
    OLD_NO_GPU: set(),
    PINNED: set(),
    STARTED: set(),
    TABLE: set(),
    SIGNAL: set(),
    TOLD_LOAD: set(),
    FOREIGN: set(),
    FAILED_INSTANCE: {LogCount.ERRORS},
    FAILED_LOAD: {LogCount.ERRORS, LogCount.FAILED_LOADS},
    NO_MEMORY: {LogCount.ERRORS, LogCount.OUT_OF_MEMORY},
    NO_GPU_MEMORY: {LogCount.ERRORS, LogCount.OUT_OF_MEMORY},
    OLD_PLAN: {LogCount.ERRORS},
    CUDA: {LogCount.ERRORS},
    PUNCTUATED: {LogCount.ERRORS},
    CUBLAS: {LogCount.ERRORS, LogCount.OUT_OF_MEMORY},
    STUB: {LogCount.ERRORS, LogCount.UNHEALTHY_STUBS},
    DISK: {LogCount.OUT_OF_MEMORY},
}


def matches(pattern: str, line: str) -> bool:
    """Apply CloudWatch's rules for the used forms: %expression%, "phrase", and ?"one" ?"or other"."""
    if pattern.startswith("%"):
        return re.search(pattern.strip("%"), line) is not None
    if pattern.startswith("?"):
        return any(phrase in line for phrase in re.findall(r'\?"([^"]+)"', pattern))
    return pattern.strip('"') in line


@pytest.mark.parametrize("line", COUNTED)
def test_each_line_is_counted_by_its_level(line):
    assert {count for count, pattern in FILTER_PATTERNS.items() if matches(pattern, line)} == COUNTED[line]


def test_expressions_are_valid_for_cloudwatch():
    """No parentheses, no lookahead, no negated sets, no exact repetition, no other special characters."""
    expressions = [pattern for pattern in FILTER_PATTERNS.values() if pattern.startswith("%")]
    for pattern in expressions:
        assert re.fullmatch(r"[A-Za-z0-9:_#=@/;,\-^$?\[\]|\\*+.]+", pattern.strip("%"))
        assert "[^" not in pattern
    # CloudWatch takes five a log group.
    assert len(expressions) <= 5
    assert max(len(pattern) for pattern in FILTER_PATTERNS.values()) <= 1024
