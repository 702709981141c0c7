"""Send requests to a served archive, compare its answers, and measure its latency."""

from __future__ import annotations

import itertools
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from model_build.checking.parity import compare
from model_build.data import Array, Case, batches, join_cases, rows_of, same_shapes
from model_build.errors import ServingError, SilentModelError
from model_build.repository.properties import RepositoryProperties
from tritonstack.client import decode_reply, encode_request
from tritonstack.files.records.comparing import Comparison
from tritonstack.files.records.manifests import GenerationReport, LatencyReport, ParityReport, ServedBy
from tritonstack.triton import TritonFailedError, TritonInstallation, TritonResponse, TritonServer
from tritonstack.triton.server import LOG_NAME

Parameters = Mapping[str, int | str | bool]
REQUEST_WITHIN_S = 120.0
LEAST_REQUESTS, MEASURED_MS = 3, 1000.0
"""Measure latency for this long, and with at least so many requests."""
NO_PARAMETERS: Parameters = MappingProxyType({})
LOG_LIMIT_BYTES = 1 << 20
WHOLE_LOG = "the whole log of the server is at the end of the build's log"
SILENT_ERROR = re.compile(rb"Stub process( '[^']*')? is not healthy")
"""The Python backend's error for a model process that sent no heartbeat for a second."""
SEVERAL_ERROR = re.compile(rb"expected a single response, got \d")
"""Triton's error for a model that answered an ordinary request with several responses."""
SEVERAL_REMEDY = "send one response per request, or add `decoupled: true` to the recipe"


@dataclass(frozen=True)
class ServingReport:
    """Result of a serving check."""

    parity: ParityReport | None
    """None if there is no single right answer, or none to compare with."""
    latency: tuple[LatencyReport, ...]
    served_by: ServedBy
    shared_memory_bytes: int = 0
    """Shared memory of its Python models at the end."""
    generation: GenerationReport | None = None
    """Report of a generative model."""
    repeated: int = 0
    """Number of answers compared only with the model's own earlier ones, if `parity` is None."""


@dataclass(frozen=True)
class InvocationClient:
    """Client for one invocation path of the server."""

    server: TritonServer
    path: str
    headers: Mapping[str, str]

    def post(self, body: bytes, content_type: str) -> tuple[bytes, str]:
        """Return the body and content type of the answer; raise ServingError on an error status."""
        reply = self.server.request(
            "POST",
            self.path,
            body=body,
            headers={"Content-Type": content_type, **self.headers},
            timeout_s=REQUEST_WITHIN_S,
        )
        require_success(reply, self.server, "the served artifact returned")
        return reply.body, reply.headers["content-type"]

    def ask(self, inputs: Mapping[str, Array], parameters: Parameters = NO_PARAMETERS) -> Mapping[str, Array]:
        """Return the outputs for one request."""
        request = encode_request(inputs, parameters=parameters)
        body, content_type = self.post(request.body, request.content_type)
        return decode_reply(body, content_type=content_type).outputs

    def compare(self, label: str, case: Case, parameters: Parameters = NO_PARAMETERS) -> list[Comparison]:
        """Send one case and compare every output."""
        outputs = self.ask(case.inputs, parameters)
        if missing := sorted(case.expected.keys() - outputs.keys()):
            names = ", ".join(sorted(outputs))
            message = f"the served artifact returned {names}; missing: {', '.join(missing)}"
            raise ServingError(
                with_errors(message, self.server),
                remedy="make the model return every output that its config.pbtxt declares",
            )
        return [
            compare(f"{label}: {case.name}", name, actual=outputs[name], expected=expected)
            for name, expected in case.expected.items()
        ]


def require_success(reply: TritonResponse, server: TritonServer, subject: str) -> None:
    """Raise ServingError, beginning with `subject`, unless the status of a reply is 200."""
    if reply.status != 200:
        kind = SilentModelError if SILENT_ERROR.search(reply.body) else ServingError
        remedy = (
            SEVERAL_REMEDY
            if SEVERAL_ERROR.search(reply.body)
            else "correct the model's code or configuration"
        )
        raise kind(
            with_errors(f"{subject} {reply.status}: {error_text(reply.body)}", server),
            remedy=f"{remedy}; {WHOLE_LOG}",
        )


def error_text(body: bytes) -> str:
    """Return the error in a body as text; outputs before it may be in binary form."""
    text = body[max(0, body.rfind(b'{"error"')) :].decode(errors="replace")[:500]
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)


def with_errors(message: str, server: TritonServer) -> str:
    """Return a message with the errors in the server's log."""
    return f"{message}\n{errors}" if (errors := server.log_errors()) else message


@contextmanager
def keeping_log(work: Path) -> Iterator[None]:
    """Add the logs of the servers below `work`, which the build deletes, as notes to an error.

    So they reach the build's log: a failed build writes its traceback there.
    """
    try:
        yield
    except Exception as error:
        for file in sorted(work.glob(f"*/{LOG_NAME}")):
            text = file.read_bytes()[-LOG_LIMIT_BYTES:].decode(errors="replace")
            error.add_note(f"{file.parent.name}, {file.name}:\n{text}")
        if isinstance(error, TritonFailedError):
            error.remedy = f"correct the model's code or configuration; {WHOLE_LOG}"
        raise


def measure(ask: Callable[[], object], *, batch: int, requests: int) -> LatencyReport:
    """Measure request latency, after one warm-up request; slow models get fewer requests."""
    ask()
    times_ms: list[float] = []
    while len(times_ms) < requests and (len(times_ms) < LEAST_REQUESTS or sum(times_ms) < MEASURED_MS):
        begin = time.perf_counter()
        ask()
        times_ms.append((time.perf_counter() - begin) * 1000)
    return latency_of(times_ms, batch=batch)


def latency_of(times_ms: Sequence[float], *, batch: int) -> LatencyReport:
    """Return the report of measured requests."""
    p50_ms, p99_ms = (round(float(percentile), 2) for percentile in np.percentile(times_ms, [50, 99]))
    return LatencyReport(batch=batch, requests=len(times_ms), p50_ms=p50_ms, p99_ms=p99_ms)


def served_by(installation: TritonInstallation) -> ServedBy:
    """Return the server's kind and version, and the Python version of its models."""
    program = f"{installation.path[0]}/python3" if installation.path else "python3"
    command = [program, "-c", "import platform; print(platform.python_version())"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return ServedBy(kind=installation.kind, triton=installation.version, python=process.stdout.strip())


MEASURED_REQUESTS = {"one": 50, "full": 8}
AT_ONCE = 8
Series = list[tuple[Case, Parameters]]
"""Requests to send one after another."""


@dataclass(frozen=True)
class RequestPlan:
    """The cases, arranged as requests for one model."""

    cases: Sequence[Case]
    max_batch: int
    properties: RepositoryProperties
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), init=False)

    def series(self) -> list[Series]:
        """Return every case once: each alone, or all as one sequence."""
        if not self.properties.keeps_state:
            return [[(case, NO_PARAMETERS)] for case in self.cases]
        number, last = next(self._numbers), len(self.cases) - 1
        return [
            [
                (case, _place_in_sequence(number, start=index == 0, end=index == last))
                for index, case in enumerate(self.cases)
            ]
        ]

    def thoroughly(self, client: InvocationClient) -> Iterator[Comparison]:
        """Compare requests sent alone, batched, and concurrently with different lengths."""
        yield from ask_in_order(client, "alone", self.series())
        if not self.properties.keeps_state:  # a sequence's request is always one row
            for joined in batches(self.cases, self.max_batch):
                yield from client.compare("together", joined)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            crowd = [*self.series(), *reversed(self.series())]
            for comparisons in pool.map(
                lambda series: list(ask_in_order(client, "at once", [series])), crowd
            ):
                yield from comparisons

    def latencies(self, client: InvocationClient) -> Iterator[LatencyReport]:
        """Measure batch 1 and the largest batch; for sequences, batch 1 only."""
        usual = [case for case in self.cases if case.typical] or self.cases
        rows = [usual[0]]
        if self.max_batch:
            rows = [row for case in same_shapes(usual)[0] for row in rows_of(case)]
        yield measure(
            lambda: client.ask(rows[0].inputs, self._alone_in_sequence()),
            batch=1,
            requests=MEASURED_REQUESTS["one"],
        )
        if self.max_batch > 1 and not self.properties.keeps_state:
            full = join_cases(list(itertools.islice(itertools.cycle(rows), self.max_batch)))
            yield measure(
                lambda: client.ask(full.inputs), batch=self.max_batch, requests=MEASURED_REQUESTS["full"]
            )

    def _alone_in_sequence(self) -> Parameters:
        if not self.properties.keeps_state:
            return NO_PARAMETERS
        return _place_in_sequence(next(self._numbers), start=True, end=True)


def ask_in_order(client: InvocationClient, label: str, series: Iterable[Series]) -> Iterator[Comparison]:
    """Send series of requests in order and compare the answers."""
    for case, parameters in itertools.chain.from_iterable(series):
        yield from client.compare(label, case, parameters)


def _place_in_sequence(number: int, *, start: bool, end: bool) -> Parameters:
    return {"sequence_id": number, "sequence_start": start, "sequence_end": end}
