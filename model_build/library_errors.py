"""Turn library exceptions into one sentence, with help for known causes."""

from __future__ import annotations

import re

from model_build.errors import ModelBuildError
from tritonstack.base.error_kinds import ModelCodeError
from tritonstack.base.errors import TritonstackError

SHOWN = 400
_NOISE = re.compile(
    r"\[\d\d:\d\d:\d\d\] (?:\S+\.(?:cc|cpp|cu|h):\d+: )?"
    r"|\[ONNXRuntimeError\] : \d+ : \w+ : (?:Load model from \S+ failed:)?"
    r"|\bStack trace:.*|\[bt\].*",
    re.DOTALL,
)
"""C++ noise around messages: times, source files, stack traces."""
_CONVERT = (
    "export the model to ONNX or TorchScript where that package is installed, and use the recipe `onnx` or "
    "`torchscript`"
)
_KNOWN = (
    (
        re.compile(r"\btimm\b"),
        f"this is a timm checkpoint, and builds do not include timm; {_CONVERT} with `input: image`",
    ),
    (
        re.compile(r"sentencepiece|tiktoken|protobuf library", re.IGNORECASE),
        "the source has no tokenizer.json, and its vocabulary cannot be converted: add the tokenizer.json of "
        "the model to the source",
    ),
    (
        re.compile(r"No module named '?([\w.]+)|requires the (\w+) library|but it was not found in your env"),
        f"builds do not include this package; {_CONVERT}",
    ),
    (
        re.compile(r"not compiled with CUDA|No CUDA GPUs|CUDA driver", re.IGNORECASE),
        "builds export on the CPU: load the weights with map_location='cpu', and do not call .cuda()",
    ),
)
"""Patterns of exceptions, with their remedies."""
_UNKNOWN = (
    "the build log has the traceback: correct the model's code, weights, or test inputs at the named step; "
    "report a bug if the model is valid"
)


def brief(error: BaseException) -> str:
    """Return a library's message on one line, without stack traces."""
    text = " ".join(_NOISE.sub("", str(error)).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"


def known_help(error: BaseException) -> str | None:
    """Return the remedy for a library's exception, if known."""
    text = f"{type(error).__name__}: {error}"
    return next((remedy for pattern, remedy in _KNOWN if pattern.search(text)), None)


def as_build_error(error: BaseException) -> TritonstackError:
    """Convert any exception that ends a step to an error of this project."""
    if isinstance(error, TritonstackError):
        return error
    name, message = type(error).__name__, brief(error)
    return ModelBuildError(
        f"{name}: {message}" if message else name,
        remedy=known_help(error) or _UNKNOWN,
        code=ModelCodeError.code,
    )
