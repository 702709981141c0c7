"""Load a server with the same requests in every round, measure it, and check its answers."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.serving.requests import Body, spread
from tritonstack.triton.processor_time import processor_seconds

WARM_UP_S, WARM_UP_CONNECTIONS = 2, 16
CHECKED = 8
"""Requests whose answers are compared with the framework's."""
IDLE_SHARE, IDLE_CHECK_S, IDLE_WITHIN_S = 0.1, 0.25, 300
"""A server is idle if it uses less than this share of a core for this time."""


@dataclass(frozen=True)
class Server:
    """A running server that answers POST requests with Triton's bodies."""

    name: str
    backend: str
    """What computes the answers."""
    pid: int
    url: str
    namespace_of: int | None = None
    """A process in the server's network namespace; None for this one."""
    sign: Callable[[Body], Mapping[str, str]] = field(default=lambda _: {})
    """Return further headers of a request."""


@dataclass(frozen=True)
class Round:
    """What one run of the load measured."""

    rate: float
    p50_ms: float
    p99_ms: float
    processor_ms: float
    """CPU time per request, of the server and everything that it started."""
    errors: int
    """Requests without an answer or with another status than 200."""
    wrong: tuple[str, ...] = ()
    """How answers differed from the framework's by more than the bounds."""
    cosine: float = 1.0
    """Least cosine of an answer under load to the framework's."""


@dataclass(frozen=True)
class Reference:
    """The framework's answers to some requests."""

    answers: NDArray[np.float32]
    """One row per checked request."""
    cosine: float
    """Least cosine of an answer to the framework's."""
    absolute: float = np.inf
    """Largest difference of a value."""

    def difference(self, row: int, answer: NDArray[np.float32]) -> str | None:
        """Return how an answer differs from the framework's; None if it is close, and closest to its own."""
        expected = self.answers[row]
        if answer.shape != expected.shape:
            return f"{answer.shape[0]} numbers, expected {expected.shape[0]}"
        cosine = cosine_of(answer, expected)
        if not cosine >= self.cosine:
            return f"cosine {cosine:.4f}, expected at least {self.cosine}"
        distances = np.linalg.norm(self.answers - answer, axis=1)
        if distances.argmin() != row:
            return "closer to the answer to another request"
        largest = float(np.abs(answer - expected).max())
        return f"off by {largest:.2g}, expected at most {self.absolute}" if largest > self.absolute else None


def cosine_of(first: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the cosine of two vectors."""
    return float(first @ other / np.linalg.norm(first) / np.linalg.norm(other))


class Load:
    """The load of one work: its requests, and their right answers."""

    def __init__(self, bodies: Sequence[Body], reference: Reference) -> None:
        self._bodies, self._reference = bodies, reference
        self._folder = tempfile.TemporaryDirectory(prefix="load-")

    def run(self, server: Server, *, connections: int, seconds: float) -> Round:
        """Warm up, compare answers under load, wait until the server is idle, and measure."""
        script = self._write(server)
        wrong, cosine = self._warm_up(server, script)
        wait_until_idle(server)
        before = processor_seconds(server.pid)
        result = finished(self._wrk(server, script, connections, seconds))
        used = processor_seconds(server.pid) - before
        wait_until_idle(server)
        answered = max(1.0, result["requests"])
        return Round(
            rate=result["requests"] / result["seconds"],
            p50_ms=result["p50_ms"],
            p99_ms=result["p99_ms"],
            processor_ms=used * 1000 / answered,
            errors=int(result["errors"]) + (result["requests"] == 0),
            wrong=wrong,
            cosine=cosine,
        )

    def _warm_up(self, server: Server, script: Path) -> tuple[tuple[str, ...], float]:
        """Send load for a short time; return wrong answers under this load, and the least cosine."""
        running = self._wrk(server, script, WARM_UP_CONNECTIONS, WARM_UP_S)
        with ThreadPoolExecutor(CHECKED) as pool:
            places = spread(self._bodies, CHECKED)
            answers = list(pool.map(lambda place: self._ask(server, self._bodies[place]), places))
        result = finished(running)
        numbers = {row: reply for row, reply in enumerate(answers) if not isinstance(reply, str)}
        wrong = [reply for reply in answers if isinstance(reply, str)]
        for row, answer in numbers.items():
            difference = self._reference.difference(row, answer)
            if difference:
                wrong.append(f"answer {row}: {difference}")
        if result["errors"]:
            wrong.append(f"{result['errors']:.0f} errors during the warm-up")
        expected = self._reference.answers
        alike = [(row, answer) for row, answer in numbers.items() if answer.shape == expected[row].shape]
        cosine = min((cosine_of(answer, expected[row]) for row, answer in alike), default=-1.0)
        return tuple(wrong), cosine

    def _ask(self, server: Server, body: Body) -> NDArray[np.float32] | str:
        """Return the answer to a request, or the error."""
        headers = {"Content-Type": body.content_type, **server.sign(body)}
        options = [option for item in headers.items() for option in ("-H", ": ".join(item))]
        command = ["curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "60", *options]
        done = subprocess.run(
            [*entered(server), *command, "--data-binary", "@-", server.url],
            input=body.data,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            return f"no answer: {(done.stdout + done.stderr).decode(errors='replace').strip()[:300]}"
        return np.array(json.loads(done.stdout)["outputs"][0]["data"], np.float32)

    def _wrk(self, server: Server, script: Path, connections: int, seconds: float) -> subprocess.Popen[bytes]:
        load = ["wrk", "--threads=1", f"--connections={connections}", f"--duration={seconds:.0f}s"]
        command = [*entered(server), *load, "--timeout=60s", f"--script={script}", server.url]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def _write(self, server: Server) -> Path:
        """Write the script of wrk, and the requests as they are sent; signatures are valid for minutes."""
        folder = Path(self._folder.name)
        requests = [raw_request(server, body) for body in self._bodies]
        (folder / "requests").write_bytes(b"".join(requests))
        sizes = ",".join(str(len(request)) for request in requests)
        script = folder / "load.lua"
        script.write_text(LUA.replace("SIZES", sizes).replace("FILE", str(folder / "requests")))
        return script


LUA = """\
local requests = {}
local file = io.open("FILE", "rb")
for _, size in ipairs({SIZES}) do
  requests[#requests + 1] = file:read(size)
end
file:close()
local sent = 0

request = function()
  sent = sent + 1
  return requests[sent % #requests + 1]
end

done = function(summary, latency, _)
  local e = summary.errors
  io.stderr:write(string.format(
    '{"requests": %d, "seconds": %f, "errors": %d, "p50_ms": %f, "p99_ms": %f}\\n',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


def finished(running: subprocess.Popen[bytes]) -> Mapping[str, float]:
    """Return what wrk printed at its end."""
    output, errors = running.communicate()
    lines = errors.decode(errors="replace").splitlines()
    if running.returncode or not lines or not lines[-1].startswith("{"):
        raise RuntimeError(f"wrk failed: {output.decode(errors='replace')}{errors.decode(errors='replace')}")
    result: dict[str, float] = json.loads(lines[-1])
    return result


def raw_request(server: Server, body: Body) -> bytes:
    """Return a request as it is sent."""
    _, _, host, path = server.url.split("/", 3)
    fields = {"Host": host, "Content-Type": body.content_type, **server.sign(body)}
    fields["Content-Length"] = str(len(body.data))
    head = [f"POST /{path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(head).encode() + body.data


def entered(server: Server) -> list[str]:
    """Return the command that runs another one in the server's network."""
    if server.namespace_of is None:
        return []
    return ["nsenter", f"--target={server.namespace_of}", "--user", "--net", "--preserve-credentials", "--"]


def wait_until_idle(server: Server) -> None:
    """Wait while a server computes requests whose connections have ended; the next run must not pay for them.

    Raises RuntimeError if it never becomes idle.
    """
    deadline = time.monotonic() + IDLE_WITHIN_S
    before = processor_seconds(server.pid)
    while time.monotonic() < deadline:
        time.sleep(IDLE_CHECK_S)
        now = processor_seconds(server.pid)
        if now - before < IDLE_SHARE * IDLE_CHECK_S:
            return
        before = now
    raise RuntimeError(f"{server.name}: still busy {IDLE_WITHIN_S} s after the load")
