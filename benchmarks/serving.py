"""Compare served sentence embeddings with FastAPI, under a closed loop of many connections.

    python -m benchmarks.serving [--rounds 5] [--seconds 15] [--connections 200]

MiniLM is built as fp32 and with `precision: auto`. Each build is served by a real Triton, and called at its
port and through InvokeEndpoint of the local cloud. The peers are benchmarks/peers/embedding.py with PyTorch
and with the same graph files. All run at the same time, get the same requests, and are loaded in turns;
the table has the medians of all rounds. The load comes from wrk, which takes little CPU time.

Before the first run: apt-get install wrk, and
pip install --require-hashes --no-deps --target .tritonstack/peers -r benchmarks/peers/requirements.txt
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import boto3
import numpy as np
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from rich.console import Console
from rich.table import Table

from benchmarks.cloud import NAME, REGION, deploy, started_cloud
from benchmarks.footprint import processor_seconds, tree
from model_build.build import BuildFolders, build_model
from model_build.exporters.text_framework import TextFramework
from model_build.sources import fetch_source
from model_build.store.archive import unpack
from model_build.store.artifacts import read_manifest
from tritonstack.base.documents import load_document
from tritonstack.base.paths import Project, find_project
from tritonstack.records.manifests import ARCHIVE_NAME, Manifest
from tritonstack.reference.container_variables import ContainerOptions, container_variables
from tritonstack.runtime import TritonServer, find_installation
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import TextEmbeddingRecipe
from tritonstack.spec.models.tolerance import ModelTolerance, PrecisionOption

MODEL = "minilm-embedding"
ACCEPT = ModelTolerance(cosine=0.97, relative=0.3)
LEAST_COSINE = 0.97
TEXTS, SHORTEST, LONGEST = 2000, 3, 30
PEER_PORT = 18100
WARM_UP_S = 3
PEER_SETTINGS = ((2, 1, 8), (1, 2, 8), (2, 1, 32))
"""Workers, threads of each, and texts padded together. The best of them in a first round is compared."""


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


@dataclass(frozen=True)
class Built:
    """A built model, unpacked."""

    manifest: Manifest
    archive: Path
    repository: Path

    def file(self, name: str) -> Path:
        """Return the only file of this name in the repository."""
        (found,) = self.repository.rglob(name)
        return found


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=15, help="length of each run")
    parser.add_argument("--connections", type=int, default=200)
    options = parser.parse_args()
    project = find_project(Path(__file__).parent)
    require_tools(project)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as running:
        folder, load = Path(temporary), Load(Path(temporary), options.seconds, options.connections)
        servers = list(start_all(project, folder, load, running))
        compare_answers(servers, load)
        rounds: dict[str, list[Round]] = {server.name: [] for server in servers}
        for _ in range(options.rounds):
            for server in servers:
                rounds[server.name].append(load.run(server))
    print_table(rounds, options.connections)


def require_tools(project: Project) -> None:
    """Exit with the missing command of the module's help."""
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing; run: apt-get install wrk")
    if not (project.state_dir / "peers" / "fastapi").is_dir():
        sys.exit(
            "the peers' packages are missing; run: pip install --require-hashes --no-deps "
            "--target .tritonstack/peers -r benchmarks/peers/requirements.txt"
        )


def start_all(project: Project, folder: Path, load: Load, running: ExitStack) -> Iterator[Server]:
    """Start every peer and every build; they end with `running`."""
    fp32, auto = (built(project, folder, precision) for precision in ("fp32", "auto"))
    torch_folder = framework_folder(project, folder / "torch", fp32)
    peers = {"FastAPI, torch": ("torch", torch_folder)}
    for made in (fp32, auto):
        peers[f"FastAPI, {label(made)} ONNX"] = ("onnx", graph_folder(folder / f"peer-{label(made)}", made))
    for number, (name, (kind, files)) in enumerate(peers.items()):
        yield running.enter_context(best_peer(project, name, kind, files, PEER_PORT + number, load))
    for made in (fp32, auto):
        yield running.enter_context(triton_port(project, folder, made))
        yield running.enter_context(invoke_endpoint(folder, made))


def label(made: Built) -> str:
    """Return the precision of a build."""
    return made.manifest.precision


def built(project: Project, folder: Path, precision: PrecisionOption) -> Built:
    """Build the model and unpack its archive."""
    document = load_document(project.model_file(MODEL), ModelSpec)
    accept = document.record.accept if precision == "fp32" else ACCEPT
    record = document.record.model_copy(update={"precision": precision, "accept": accept})
    result = build_model(model=replace(document, record=record), folders=BuildFolders.of(project))
    manifest = read_manifest(result.artifact_dir)
    repository = folder / f"repository-{manifest.precision}"
    archive = result.artifact_dir / ARCHIVE_NAME
    unpack(archive, repository, limit_bytes=manifest.unpacked_bytes)
    return Built(manifest, archive, repository)


def graph_folder(folder: Path, made: Built) -> Path:
    """Return a folder with the graph and the tokenizer that Triton serves."""
    shutil.copytree(made.file("model.onnx").parent, folder)
    shutil.copy(made.file("tokenizer.json"), folder)
    return folder


def framework_folder(project: Project, folder: Path, made: Built) -> Path:
    """Return a folder with the model's source, and the tokenizer that Triton serves."""
    document = load_document(project.model_file(MODEL), ModelSpec)
    recipe, source = document.record.recipe, document.record.source
    if not isinstance(recipe, TextEmbeddingRecipe) or source is None:
        sys.exit(f"{MODEL} is not a text-embedding model, which this benchmark needs")
    fetched = fetch_source(source, model_folder=document.file.parent, cache_dir=project.cache_dir)
    framework = TextFramework(source=fetched, recipe=recipe)
    shutil.copytree(fetched.folder, folder)
    (folder / "tokenizer.json").write_text(framework.served_tokenizer(), encoding="utf-8")
    return folder


@contextmanager
def best_peer(project: Project, name: str, kind: str, files: Path, port: int, load: Load) -> Iterator[Server]:
    """Start a peer with each setting in turn, and keep the fastest."""
    rates = {}
    for setting in PEER_SETTINGS:
        with peer(project, name, kind, files, port, setting) as server:
            rates[setting] = load.run(server).rate
    with peer(project, name, kind, files, port, max(rates, key=lambda setting: rates[setting])) as server:
        yield server


@contextmanager
def peer(
    project: Project, name: str, kind: str, files: Path, port: int, setting: tuple[int, int, int]
) -> Iterator[Server]:
    """Start a peer with one setting."""
    workers, threads, group = setting
    arguments = [f"--{key}={value}" for key, value in (("workers", workers), ("threads", threads))]
    command = [sys.executable, "-m", "benchmarks.peers.embedding", f"--model={kind}", f"--folder={files}"]
    path = os.pathsep.join([str(project.state_dir / "peers"), str(project.root)])
    process = subprocess.Popen(
        [*command, f"--port={port}", f"--group={group}", *arguments],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(f"{url}/ping", process)
        name = f"{name}, {workers}x{threads} threads, groups of {group}"
        yield Server(name, process.pid, f"{url}/invocations")
    finally:
        process.terminate()
        process.wait()


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return when a server answers; exit if it ends or takes too long."""
    for _ in range(600):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - always http://127.0.0.1
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url} does not answer")


@contextmanager
def triton_port(project: Project, folder: Path, made: Built) -> Iterator[Server]:
    """Start a Triton as an endpoint's container does, called without AWS in front of it."""
    with TritonServer.start(
        installation=find_installation(home=project.server_dir),
        model_root=made.repository,
        environment=variables(made),
        state_dir=folder / f"triton-{label(made)}",
    ) as server:
        server.wait_ready(timeout_s=120)
        inside = next(pid for pid in tree(server.pid) if program(pid) == "tritonserver")
        name = f"tritonstack, {label(made)}, container port"
        yield Server(name, server.pid, "http://127.0.0.1:8080/invocations", namespace_of=inside)


def program(pid: int) -> str:
    """Return the name of a process."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def variables(made: Built) -> dict[str, str]:
    """Return the environment of the container."""
    return container_variables({}, ContainerOptions(made.manifest.entry_model))


@contextmanager
def invoke_endpoint(folder: Path, made: Built) -> Iterator[Server]:
    """Start a local cloud with one endpoint; requests are signed."""
    with started_cloud(folder / f"cloud-{label(made)}") as started:
        keys = Credentials(started.variables["AWS_ACCESS_KEY_ID"], started.variables["AWS_SECRET_ACCESS_KEY"])
        session = boto3.Session(keys.access_key, keys.secret_key, region_name=REGION)
        deploy(session, started.url, made.archive, variables(made))
        url = f"{started.url}/endpoints/{NAME}/invocations"
        headers = {body: signed(url, body, keys) for body in bodies()}
        yield Server(f"tritonstack, {label(made)}, InvokeEndpoint", started.pid, url, headers=headers)


def signed(url: str, body: str, keys: Credentials) -> dict[str, str]:
    """Return the headers of a request, signed once: a signature is valid for minutes."""
    request = AWSRequest("POST", url, data=body.encode(), headers={"Content-Type": "application/json"})
    SigV4Auth(keys, "sagemaker", REGION).add_auth(request)
    return dict(request.headers.items())


def bodies() -> list[str]:
    """Return the same requests in every run: English sentences of 5 to 38 tokens, 20 on average."""
    words = (Path(__file__).parent / "words.txt").read_text().split()
    chosen = random.Random(2026)  # noqa: S311 - the same texts in every run, no secret
    texts = [
        " ".join(chosen.choices(words, k=chosen.randint(SHORTEST, LONGEST))).capitalize() + "."
        for _ in range(TEXTS)
    ]
    tensor = {"name": "TEXT", "datatype": "BYTES", "shape": [1, 1]}
    return [json.dumps({"inputs": [{**tensor, "data": [text]}]}) for text in texts]


def compare_answers(servers: Sequence[Server], load: Load) -> None:
    """Exit if a server's answer differs from the first one's."""
    reference: np.ndarray | None = None
    for server in servers:
        answer = load.ask(server)
        reference = answer if reference is None else reference
        cosine = float(answer @ reference / np.linalg.norm(answer) / np.linalg.norm(reference))
        if cosine < LEAST_COSINE:
            sys.exit(f"{server.name}: cosine {cosine:.4f} to {servers[0].name}, expected {LEAST_COSINE}")


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


def print_table(rounds: Mapping[str, Sequence[Round]], connections: int) -> None:
    """Print the medians, with the range of the rates."""
    table = Table(title=f"{connections} connections, medians of {len(next(iter(rounds.values())))} rounds")
    for column in ("server", "requests/s", "range", "p50 ms", "p99 ms", "CPU ms/request"):
        table.add_column(column, justify="left" if column == "server" else "right")
    for name, runs in rounds.items():
        rates = [run.rate for run in runs]
        table.add_row(
            name,
            f"{statistics.median(rates):.0f}",
            f"{min(rates):.0f}-{max(rates):.0f}",
            f"{statistics.median(run.p50_ms for run in runs):.0f}",
            f"{statistics.median(run.p99_ms for run in runs):.0f}",
            f"{statistics.median(run.processor_ms for run in runs):.2f}",
        )
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
