"""Load a server with the same requests in every run, and measure it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.footprint import processor_seconds

TEXTS, SHORTEST, LONGEST = 2000, 3, 30


WARM_UP_S = 3


@dataclass(frozen=True)
class Server:
    """A running server that answers POST requests with Triton's bodies."""

    name: str
    pid: int
    url: str
    namespace_of: int | None = None
    """A process in the server's network namespace; None for this one."""
    headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Headers per body."""


@dataclass(frozen=True)
class Round:
    """What one run of the load measured."""

    rate: float
    p50_ms: float
    p99_ms: float
    processor_ms: float
    """CPU time per request, of the server and everything that it started."""


def bodies() -> list[str]:
    """Return the same requests in every run: English sentences of 5 to 38 tokens, 20 on average."""
    words = (Path(__file__).parents[1] / "words.txt").read_text().split()
    chosen = random.Random(2026)  # noqa: S311 - the same texts in every run, no secret
    texts = [
        " ".join(chosen.choices(words, k=chosen.randint(SHORTEST, LONGEST))).capitalize() + "."
        for _ in range(TEXTS)
    ]
    tensor = {"name": "TEXT", "datatype": "BYTES", "shape": [1, 1]}
    return [json.dumps({"inputs": [{**tensor, "data": [text]}]}) for text in texts]


class Load:
    """Loads one server at a time with wrk."""

    def __init__(self, folder: Path, seconds: int, connections: int) -> None:
        self._folder, self._seconds, self._connections = folder, seconds, connections

    def run(self, server: Server) -> Round:
        """Warm up, and measure one run."""
        script = self._script(server)
        self._wrk(server, script, WARM_UP_S)
        before = processor_seconds(server.pid)
        result = self._wrk(server, script, self._seconds)
        used = processor_seconds(server.pid) - before
        if result["errors"] or not result["requests"]:
            sys.exit(f"{server.name}: {result['requests']} answers, {result['errors']} errors")
        return Round(
            rate=result["requests"] / result["seconds"],
            p50_ms=result["p50_ms"],
            p99_ms=result["p99_ms"],
            processor_ms=used * 1000 / result["requests"],
        )

    def ask(self, server: Server) -> np.ndarray:
        """Return the answer to the first request."""
        body = bodies()[0]
        headers = server.headers.get(body) or {"Content-Type": "application/json"}
        options = [option for item in headers.items() for option in ("-H", ": ".join(item))]
        command = [
            "curl",
            "--silent",
            "--fail-with-body",
            "--max-time",
            "60",
            *options,
            "--data-binary",
            body,
        ]
        done = subprocess.run(
            [*entered(server), *command, server.url], capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{server.name}: {done.stdout}{done.stderr}")
        return np.array(json.loads(done.stdout)["outputs"][0]["data"])

    def _wrk(self, server: Server, script: Path, seconds: int) -> dict[str, float]:
        load = ["wrk", "--threads=1", f"--connections={self._connections}", f"--duration={seconds}s"]
        command = [*entered(server), *load, "--timeout=60s", f"--script={script}", server.url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        result: dict[str, float] = json.loads(done.stderr.splitlines()[-1])
        return result

    def _script(self, server: Server) -> Path:
        script = self._folder / "load.lua"
        path = "/" + server.url.split("/", 3)[3]
        host = server.url.split("/")[2]
        requests = [raw_request(path, host, body, server.headers.get(body, {})) for body in bodies()]
        script.write_text(LUA.replace("REQUESTS", ",\n".join(map(json.dumps, requests))))
        return script


LUA = """\
local requests = {
REQUESTS
}
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


def raw_request(path: str, host: str, body: str, headers: Mapping[str, str]) -> str:
    """Return a request as it is sent."""
    fields = {"Host": host, "Content-Type": "application/json", **headers, "Content-Length": str(len(body))}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", body]
    return "\r\n".join(lines)


def entered(server: Server) -> list[str]:
    """Return the command that runs another one in the server's network."""
    if server.namespace_of is None:
        return []
    return ["nsenter", f"--target={server.namespace_of}", "--user", "--net", "--preserve-credentials", "--"]
