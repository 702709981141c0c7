"""Run graphs: answers and times. Here in ONNX Runtime, in openvino_session.py in OpenVINO."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from model_build.checking.parity import compare_all
from model_build.data import Array, Case
from model_build.errors import UnsupportedModelError
from tritonstack.files.records.comparing import Comparison

Inputs = Mapping[str, Array]

THREADS_TIMED = 1
"""Several single-threaded copies outperform one multi-threaded copy, with less noise."""
ROUNDS = (9, 41)
SECONDS_A_SHAPE = 3.0
"""Bounds on the number of timed runs: slow graphs run less often."""
LEAST_ROUNDS = 3
"""Timed runs if the budget is spent."""


class LoadedGraph(Protocol):
    """A graph loaded in a runtime."""

    def answer(self, inputs: Inputs, names: Sequence[str] = ()) -> Mapping[str, Array]:
        """Return the named outputs, or all."""

    def run(self, inputs: Inputs) -> None:
        """Compute what Triton would for requests with these rows."""


def session_options(*, exact: bool) -> Any:
    """Return the options of a session.

    x86 processors without VNNI add two products of unsigned and signed 8 bits in 16 bits, which overflows.
    With `exact`, ONNX Runtime stores the signed ones unsigned, and adds in 32 bits. That is slower with VNNI.
    """
    import onnxruntime  # noqa: PLC0415 - as below

    options = onnxruntime.SessionOptions()
    if exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    return options


class GraphSession:
    """A graph loaded in ONNX Runtime."""

    def __init__(self, file: Path, *, threads: int = 0, exact: bool = True) -> None:
        """`exact`: the same sums of 8-bit products on every processor; else those of Triton on this one."""
        import onnxruntime  # noqa: PLC0415 - takes time, and a build that finds its artifact does not need it

        options = session_options(exact=exact)
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._errors = _errors()
        try:
            self._session = onnxruntime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"]
            )
        except self._errors as error:
            raise UnsupportedModelError(
                f"ONNX Runtime cannot load the graph: {error}",
                remedy="export the graph with operators and an opset that this ONNX Runtime supports",
            ) from error

    def answer(self, inputs: Inputs, names: Sequence[str] = ()) -> Mapping[str, Array]:
        """Return the named outputs, or all."""
        outputs = list(names) or [output.name for output in self._session.get_outputs()]
        try:
            return dict(zip(outputs, self._session.run(outputs, dict(inputs)), strict=True))
        except self._errors as error:
            raise UnsupportedModelError(
                f"ONNX Runtime cannot run the graph: {error}",
                remedy="correct the test inputs, or the operator that the message names",
            ) from error

    def run(self, inputs: Inputs) -> None:
        """Compute the rows in one batch: Triton combines requests."""
        self.answer(inputs)


def compare_graph(session: LoadedGraph, cases: Sequence[Case]) -> list[Comparison]:
    """Compare every output of every case with the framework's."""
    return compare_all(session.answer, cases)


def typical_requests(cases: Sequence[Case], *, max_batch: int) -> dict[str, Inputs]:
    """Return timing requests by shape: the shortest and longest typical case, alone and batched.

    Without a batch dimension (`max_batch` 0), the cases are unchanged.
    """
    typical = sorted((case for case in cases if case.typical), key=_elements) or list(cases)
    requests = {}
    for case in dict.fromkeys((0, -1)):
        inputs = typical[case].inputs
        for batch in sorted({1, max_batch}) if max_batch else (None,):
            sized = inputs if batch is None else {name: _rows(array, batch) for name, array in inputs.items()}
            requests["x".join(map(str, next(iter(sized.values())).shape))] = sized
    return requests


def time_graphs(
    files: Mapping[str, LoadedGraph], requests: Mapping[str, Inputs], *, seconds: float
) -> dict[str, dict[str, float]]:
    """Return the minimum processor time per run in milliseconds, by graph and shape.

    Graphs take turns, so external load slows all of them. Processor time excludes other programs, and the
    minimum of many runs is the least disturbed. After `seconds`, each graph runs only a few times per shape.
    """
    times: dict[str, dict[str, float]] = {name: {} for name in files}
    deadline = time.monotonic() + seconds
    for number, (shape, inputs) in enumerate(requests.items()):
        slowest = max(_once(session, inputs) for session in files.values())
        share = (deadline - time.monotonic()) / (len(requests) - number)
        rounds = _rounds(slowest * len(files), share)
        elapsed: dict[str, list[float]] = {name: [] for name in files}
        for _ in range(rounds):
            for name, session in files.items():
                elapsed[name].append(_once(session, inputs))
        for name, runs in elapsed.items():
            times[name][shape] = round(min(runs) * 1000, 3)
    return times


def _rounds(seconds_a_round: float, most_seconds: float) -> int:
    """Return how often to run all graphs."""
    rounds = min(max(SECONDS_A_SHAPE / seconds_a_round, ROUNDS[0]), ROUNDS[1])
    return max(LEAST_ROUNDS, int(min(rounds, most_seconds / seconds_a_round)))


def _once(session: LoadedGraph, inputs: Inputs) -> float:
    # A session with THREADS_TIMED threads computes in the calling thread.
    begin = time.thread_time()
    session.run(inputs)
    return time.thread_time() - begin


def _elements(case: Case) -> int:
    return sum(array[:1].size for array in case.inputs.values())


def _rows(array: Array, batch: int) -> Array:
    return np.resize(array, (batch, *array.shape[1:]))


def _errors() -> tuple[type[Exception], ...]:
    """Return ONNX Runtime's exception types, which share no base class."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: PLC0415

    names = (
        "Fail InvalidArgument InvalidGraph InvalidProtobuf NoSuchFile NotImplemented RuntimeException EPFail"
    )
    return (*(getattr(state, name) for name in names.split()), ValueError, RuntimeError)
