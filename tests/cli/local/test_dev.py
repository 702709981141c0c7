"""`tritonstack dev` with a real Triton: edits, broken edits, and what remains after Ctrl-C."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.projects import edit
from tritonstack import NullReporter, Session, dev
from tritonstack.base.error_kinds import LocalCloudError
from tritonstack.base.paths import Project, find_project
from tritonstack.operate.local.dev import snapshot_of, wait_for_change

ROOT = find_project(Path(__file__)).root
EXAMPLE = ROOT / "tritonstack/files/scaffold/examples/python"
REQUEST = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.0]}]}


DECOUPLED = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            sender = request.get_response_sender()
            for factor in (2, 3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", x * factor)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@pytest.fixture
def shop(tmp_path):
    """A project with a Python model that doubles its input, and the server of this repository."""
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    (tmp_path / "cdk.json").write_text("{}")
    (tmp_path / ".tritonstack").mkdir()
    (tmp_path / ".tritonstack/server").symlink_to(find_project(Path(__file__)).server_dir)
    return Project(tmp_path)


@pytest.fixture
def development(shop):
    """The command, in a process of its own."""
    code = "from tritonstack.cli.entry import main; main()"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = (sys.executable, "-c", code, "--json", "dev", "double", "--port", str(port))
    process = subprocess.Popen(
        command,
        cwd=shop.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def paused(process: subprocess.Popen[str]) -> Iterator[None]:
    """Stop the command meanwhile, so that it sees edits of several files as one change."""
    process.send_signal(signal.SIGSTOP)
    while state(process.pid) != "T":
        time.sleep(0.01)
    yield
    process.send_signal(signal.SIGCONT)


def event(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the next version or error."""
    assert process.stdout is not None
    return dict(json.loads(process.stdout.readline()))


def ask(url: str) -> list[float]:
    request = urllib.request.Request(
        f"{url}/invocations", json.dumps(REQUEST).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return list(json.load(reply)["outputs"][0]["data"])


def state(pid: int) -> str:
    """Return the state of a process as in proc(5); Z if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def wait_until_gone(processes: set[int]) -> None:
    end = time.monotonic() + 60
    while remaining := [pid for pid in processes if state(pid) != "Z"]:
        assert time.monotonic() < end, remaining
        time.sleep(0.1)


def children(pid: int) -> set[int]:
    """Return all descendants of a process."""
    descendants, waiting = set[int](), [pid]
    while waiting:
        for tasks in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):  # it has ended meanwhile
                new = {int(pid_text) for pid_text in tasks.read_text().split()}
                descendants |= new
                waiting += new
    return descendants


@pytest.mark.e2e
def test_edits_are_served_until_the_terminal_closes(shop, development):
    code, model = shop.root / "models/double/model.py", shop.root / "models/double/model.yaml"
    first = event(development)
    assert (first["number"], first["differences"]) == (1, [])
    shown = subprocess.run(shlex.split(first["request"]), capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout)["outputs"][0]["data"] == [2.0, 4.0]

    edit(code, "* 2", "* 3")
    (difference,) = event(development)["differences"]
    assert "input 1: y is 3 for 2" in difference
    assert ask(first["url"]) == [3.0, 6.0]

    for broken, complaint in (("(", "not valid Python"), ("raise RuntimeError('no start')", "no start")):
        good = code.read_text()
        code.write_text(f"{good}\n{broken}\n")
        error = event(development)["error"]
        assert complaint in error["message"]
        assert ask(first["url"]) == [3.0, 6.0], "the former version keeps serving"
        code.write_text(good)
        assert ask(event(development)["url"]) == [3.0, 6.0]

    edit(code, "* 3", "* 4 / 0 if False else undefined")
    assert event(development)["error"]["code"] == "TS319"
    assert ask(first["url"]) == [3.0, 6.0]
    with paused(development):
        edit(code, "* 4 / 0 if False else undefined", "* 4")
        edit(model, "outputs: {y: [2.0, 4.0]}", "outputs: {y: [4.0, 8.0]}")
    assert event(development)["differences"] == []
    assert ask(first["url"]) == [4.0, 8.0]

    with paused(development):
        edit(model, "outputs: {y: [4.0, 8.0]}", "responses: [{y: [2.0, 4.0]}, {y: [3.0, 6.0]}]")
        edit(model, "{kind: python}", "{kind: python, decoupled: true}")
        code.write_text(DECOUPLED)
    served = event(development)
    assert served["differences"] == []
    shown = subprocess.run(shlex.split(served["request"]), capture_output=True, text=True, check=True)
    assert [json.loads(line.partition(":")[2])["y"] for line in shown.stdout.split("\n\n")[:-1]] == [
        [2.0, 4.0],
        [3.0, 6.0],
    ]
    edit(code, "(2, 3)", "(2, 3, 4)")
    assert "2 responses, got 3" in event(development)["differences"][0]

    started = children(development.pid)
    assert started
    for _ in range(3):  # a terminal that closes, and its shell, send several
        development.send_signal(signal.SIGHUP)
        time.sleep(0.02)
    assert development.wait(timeout=60) != 0
    wait_until_gone(started)
    assert not (shop.state_dir / "dev").exists()
    assert not shop.artifacts_dir.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(first["url"].rpartition(":")[2]))) != 0


@pytest.mark.e2e
def test_a_port_in_use(shop):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(LocalCloudError, match="Address already"):
            dev(
                Session(shop, NullReporter()),
                "double",
                port=taken.getsockname()[1],
                on_served=print,
                on_error=print,
            )
    assert not (shop.state_dir / "dev").exists()


def test_a_change_is_noticed_when_it_is_complete(tmp_path):
    (tmp_path / "__pycache__").mkdir()
    file = tmp_path / "model.py"
    file.write_text("one")
    looks: list[int] = []

    def look() -> Any:
        """Write for as long as three looks."""
        looks.append(len(looks))
        if len(looks) < 4:
            file.write_text("two" * len(looks))
        (tmp_path / "__pycache__/model.pyc").write_text(str(time.time()))
        return snapshot_of([tmp_path])

    before = snapshot_of([tmp_path])
    changed = wait_for_change(look, before)
    assert changed != before
    assert looks == [0, 1, 2, 3]
    file.unlink()
    assert snapshot_of([tmp_path]) == {}
