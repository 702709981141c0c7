"""Run graphs in OpenVINO in bf16, as Triton's openvino backend does: answers and times."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from model_build.data import Array
from model_build.errors import UnsupportedModelError
from model_build.graphs.running import Inputs

ERRORS = (RuntimeError, TypeError, ValueError)
"""OpenVINO's exceptions are RuntimeError; it also raises Python's own for unsuitable arrays."""
_HINT = "INFERENCE_PRECISION_HINT"


class OpenVinoSession:
    """A graph loaded in OpenVINO, with bf16 operations if the CPU has them."""

    def __init__(self, file: Path, *, threads: int = 0, by_row: bool = False) -> None:
        """`by_row`: run the rows of a request one by one, as Triton does with requests of one row each."""
        import openvino  # noqa: PLC0415 - takes time, and a build that finds its artifact does not need it

        properties: dict[str, int | str] = {_HINT: "bf16", "NUM_STREAMS": 1}
        if threads:
            properties["INFERENCE_NUM_THREADS"] = threads
        self._by_row = by_row
        try:
            with _signal_stack_kept():
                compiled = openvino.Core().compile_model(str(file), "CPU", properties)
            self._outputs = [output.get_any_name() for output in compiled.outputs]
            self._request = compiled.create_infer_request()
        except ERRORS as error:
            raise UnsupportedModelError(
                f"OpenVINO cannot load the graph: {_message_of(error)}",
                remedy="use another precision: ONNX Runtime runs all others",
            ) from error

    def answer(self, inputs: Inputs, names: Sequence[str] = ()) -> Mapping[str, Array]:
        """Return the named outputs, or all."""
        try:
            results = self._request.infer(dict(inputs))
        except ERRORS as error:
            raise UnsupportedModelError(
                f"OpenVINO cannot run the graph: {_message_of(error)}",
                remedy="use another precision: ONNX Runtime runs all others",
            ) from error
        return {name: results[name] for name in (names or self._outputs)}

    def run(self, inputs: Inputs) -> None:
        """Compute what Triton would for requests with these rows."""
        if not self._by_row:
            self.answer(inputs)
            return
        for row in range(len(next(iter(inputs.values())))):
            self.answer({name: array[row : row + 1] for name, array in inputs.items()})


@functools.cache
def computes_bf16() -> bool:
    """Return whether OpenVINO computes in bf16 on this processor: it needs AVX-512 or AVX2_VNNI_2."""
    import openvino as ov  # noqa: PLC0415 - as above
    from openvino import opset8  # noqa: PLC0415 - as above

    value = opset8.parameter([1], ov.Type.f32)
    model = ov.Model([opset8.relu(value)], [value])
    with _signal_stack_kept():
        compiled = ov.Core().compile_model(model, "CPU", {_HINT: "bf16"})
        return bool(compiled.get_property(_HINT) == ov.Type.bf16)


class _SignalStack(ctypes.Structure):
    """`stack_t` of sigaltstack(2)."""

    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def _signal_stack_kept() -> Iterator[None]:
    """Restore this thread's signal stack, which OpenVINO replaces until the graph is freed.

    If two graphs are loaded at once, the second one would restore the freed stack of the first, and
    Ctrl-C would end the build with a segmentation fault.
    """
    sigaltstack = ctypes.CDLL(None).sigaltstack
    before = _SignalStack()
    sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        sigaltstack(ctypes.byref(before), None)


def _message_of(error: Exception) -> str:
    """Return OpenVINO's message in one line, without the source locations that stand before it."""
    lines = (line.strip() for line in str(error).splitlines())
    return " ".join(
        line for line in lines if line and not line.startswith(("Exception from src/", "Check '"))
    )
