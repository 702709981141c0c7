"""Requests in KServe's JSON format, models on a shared server, and the leftovers of a server."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.contract.drivers import MultiModel
from tritonstack.triton import TritonFailedError, TritonResponse, TritonServer

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where servers could leave something


class Served(Protocol):
    """A server, or a model of a multi-model server."""

    def request(self, method: str, path: str, *, body: bytes = b"") -> TritonResponse: ...


class Host:
    """A multi-model server that loads each repository under a name of its own."""

    def __init__(self, server: MultiModel) -> None:
        self._server = server
        self._count = 0

    def load(self, write: Callable[[Path], object]) -> Served:
        """Load the repository that a function writes."""
        model = HostedModel(self._server, f"model-{self._count}")
        answer = self._load(write)
        assert answer.status == 200, answer.body
        return model

    def reason(self, write: Callable[[Path], object]) -> str:
        """Return why a repository cannot be loaded."""
        answer = self._load(write)
        assert answer.status != 200
        return str(json.loads(answer.body)["error"])

    def _load(self, write: Callable[[Path], object]) -> TritonResponse:
        name = f"model-{self._count}"
        self._count += 1
        self._server.lay(name, write)
        return self._server.load(name, f"{name}.tar.gz")


class HostedModel:
    """A model of a multi-model server, called as a server of its own."""

    def __init__(self, server: MultiModel, name: str) -> None:
        self._server, self._name = server, name

    def request(self, method: str, path: str, *, body: bytes = b"") -> TritonResponse:
        assert (method, path) == ("POST", "/invocations")
        return self._server.invoke(self._name, f"{self._name}.tar.gz", body)


def failed_start(server: TritonServer) -> TritonFailedError:
    """Return why a server does not become ready."""
    with pytest.raises(TritonFailedError) as caught:
        server.wait_ready(timeout_s=60)
    return caught.value


def tensor(name: str, datatype: str, data: list[Any], shape: list[int] | None = None) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape or [1, len(data)], "data": data}


def post(server: Served, *inputs: dict[str, Any], **fields: Any) -> TritonResponse:
    return server.request("POST", "/invocations", body=json.dumps({"inputs": inputs, **fields}).encode())


def invoke(server: Served, x: list[float], *, row: int | None = None) -> TritonResponse:
    rows = [] if row is None else [tensor("row", "INT64", [row])]
    return post(server, tensor("x", "FP32", x), *rows)


def invoke_together(server: Served, rows: Sequence[int]) -> list[TritonResponse]:
    """Send requests that arrive while the first waits for a batch."""
    with ThreadPoolExecutor(len(rows)) as pool:
        return list(pool.map(lambda row: invoke(server, [1.0, 2.0], row=row), rows))


def error(response: TritonResponse) -> str:
    assert response.status in (400, 500)  # of a multi-model server, and of a model alone
    return str(json.loads(response.body)["error"])


def outputs(response: TritonResponse) -> dict[str, list[Any]]:
    assert response.status == 200, response.body
    return {output["name"]: output["data"] for output in json.loads(response.body)["outputs"]}


def processes_writing_to(log: Path) -> list[int]:
    """Return every process of a server, including children: all write to its log."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is none of ours
            if os.readlink(folder / "fd/1") == str(log):
                pids.append(int(folder.name))
    return pids


def wait_until_gone(log: Path) -> bool:
    """Return whether the server's processes end within a generous time."""
    deadline = time.monotonic() + 60
    while processes_writing_to(log):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def shared_memory_left_behind() -> set[str]:
    """Return the host's shared memory regions that no process uses, so other servers' do not count."""
    unused = {entry.name for entry in SHARED_MEMORY.iterdir() if entry.name.startswith("triton")}
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # a process that has ended meanwhile
            text = maps.read_text()
            unused = {name for name in unused if name not in text}
    return unused
