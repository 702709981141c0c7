"""Filter patterns of CloudWatch Logs, including those of the stacks."""

import pytest

from tritonstack.constructs.monitoring.triton_log import FILTER_PATTERNS, LogCount
from tritonstack_local.cloudwatch.logs import PatternError, parse_pattern


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        ("", "anything", True),
        ("ERROR", "[ERROR 400] bad", True),
        ("ERROR", "[error 400] bad", False),
        ("ERROR bad", "bad ERROR", True),
        ("ERROR bad", "ERROR", False),
        ('"bad request"', "a bad request", True),
        ('"bad request"', "request bad", False),
        ('"say \\"no\\""', 'they say "no"', True),
        ("?ERROR ?WARN", "a WARN line", True),
        ("?ERROR ?WARN", "an INFO line", False),
        ("ERROR -Exiting", "ERROR now", True),
        ("ERROR -Exiting", "ERROR: Exiting", False),
        ('-"not found"', "found", True),
        (r"%^\d{3}\s[A-Z]+$%", "404 NO", True),
        (r"%^\d{3}\s[A-Z]+$%", "1404 NO", False),
    ],
)
def test_patterns(pattern, line, expected):
    assert parse_pattern(pattern).matches(line) is expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("{ $.code = 500 }", "does not support filter patterns for JSON"),
        ("[ip, user]", "does not support filter patterns for columns"),
        ("?a b", "optional terms"),
        ("a:b", "double quotes"),
        ('"open', "Invalid character"),
        ("%(a|b)%", "no groups"),
        ("%a b%", "no spaces"),
        ("%[a%", "Invalid expression"),
        ("%a% b", "a single expression"),
    ],
)
def test_invalid_and_unsupported_input_is_rejected(pattern, message):
    with pytest.raises(PatternError, match=message):
        parse_pattern(pattern)


ERROR = "E1121 10:00:00.123456 2 model_lifecycle.cc:642] \"failed to load 'bert' version 1: Internal: no\""
DRIVER = 'E1121 10:00:00.123456 2 cuda.cc:1] "CudaDriverHelper has not been initialized."'
UNHEALTHY = "I1121 10:00:00.123456 2 stub.cc:1] \"Stub process 'a' is not healthy.\""
MEMORY = "torch.cuda.OutOfMemoryError: CUDA out of memory"


@pytest.mark.parametrize(
    ("count", "lines"),
    [
        (LogCount.ERRORS, {ERROR}),
        (LogCount.FAILED_LOADS, {ERROR}),
        (LogCount.OUT_OF_MEMORY, {MEMORY}),
        (LogCount.UNHEALTHY_STUBS, {UNHEALTHY}),
    ],
)
def test_filter_patterns_of_the_stacks(count, lines):
    pattern = parse_pattern(FILTER_PATTERNS[count])
    assert {line for line in (ERROR, DRIVER, UNHEALTHY, MEMORY) if pattern.matches(line)} == lines
