"""Turns any exception of a library into one sentence, with help where the cause is known."""

from __future__ import annotations

import re

from model_build.errors import LibraryError
from tritonstack.base.errors import TritonstackError

SHOWN = 400
_NOISE = re.compile(
    r"\[\d\d:\d\d:\d\d\] (?:\S+\.(?:cc|cpp|cu|h):\d+: )?"
    r"|\[ONNXRuntimeError\] : \d+ : \w+ : (?:Load model from \S+ failed:)?"
    r"|\bStack trace:.*|\[bt\].*",
    re.DOTALL,
)
"""What C++ libraries put around their messages: times, source files, stack traces."""
_CONVERT = (
    "export the model to ONNX or TorchScript where that package is installed, and use the recipe `onnx` or "
    "`torchscript`"
)
_KNOWN = (
    (re.compile(r"\btimm\b"), f"this is a checkpoint of timm, which builds do not have; {_CONVERT}"),
    (
        re.compile(r"sentencepiece|tiktoken|protobuf library", re.IGNORECASE),
        "the source has no tokenizer.json: load it with AutoTokenizer where sentencepiece is installed, "
        "write it with save_pretrained(folder), and add its tokenizer.json to the source",
    ),
    (
        re.compile(r"No module named '?([\w.]+)|requires the (\w+) library|but it was not found in your env"),
        f"builds do not have this package; {_CONVERT}",
    ),
    (
        re.compile(r"not compiled with CUDA|No CUDA GPUs|CUDA driver", re.IGNORECASE),
        "builds export on the CPU: load the weights with map_location='cpu', and do not call .cuda()",
    ),
)
"""What an exception says, and what to do about it."""


def brief(error: BaseException) -> str:
    """What a library says, on one line, without stack traces and pages of advice."""
    text = " ".join(_NOISE.sub("", str(error)).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"


def known_help(error: BaseException) -> str | None:
    """What to do about a library's exception, if its cause is known."""
    text = f"{type(error).__name__}: {error}"
    return next((remedy for pattern, remedy in _KNOWN if pattern.search(text)), None)


def as_build_error(error: BaseException) -> TritonstackError:
    """The error of this project for any exception that ends a step."""
    if isinstance(error, TritonstackError):
        return error
    name, words = type(error).__name__, brief(error)
    return LibraryError(f"{name}: {words}" if words else name, remedy=known_help(error))
