"""Requests in KServe's JSON format, and the processes and leftovers of a server."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from tritonstack.runtime import TritonResponse, TritonServer

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where servers could leave something


def tensor(name: str, datatype: str, data: list[Any]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": [1, len(data)], "data": data}


def invoke(server: TritonServer, x: list[float], *, row: int | None = None) -> TritonResponse:
    inputs = [tensor("x", "FP32", x)]
    if row is not None:
        inputs.append(tensor("row", "INT64", [row]))
    body = json.dumps({"inputs": inputs}).encode()
    return server.request("POST", "/invocations", body=body, headers={"Content-Type": "application/json"})


def outputs(response: TritonResponse) -> dict[str, list[Any]]:
    assert response.status == 200, response.body
    return {output["name"]: output["data"] for output in json.loads(response.body)["outputs"]}


def processes_writing_to(log: Path) -> list[int]:
    """Return every process of a server, including children: all write to its log."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "fd/1") == str(log):
                found.append(int(folder.name))
        except OSError:  # it has ended, or is none of ours
            continue
    return found


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
    left = {entry.name for entry in SHARED_MEMORY.iterdir() if entry.name.startswith("triton")}
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # a process that has ended meanwhile
            text = maps.read_text()
            left = {name for name in left if name not in text}
    return left
