"""The watcher of Python stubs, with processes that have the names of Triton's."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from model_build.served import watch_stubs

MODEL = "/opt/ml/models/abc/model/m/1/model.py"
# Starts a stub and says which process it is. A line on stdin makes it reap a stub, as Triton does. Answers
# the paths that it is given with 200 and others with 404; `silent` makes it accept and answer nothing.
SERVER = """
import http.server, signal, socket, subprocess, sys, threading
stub, known = sys.argv[1], sys.argv[3:]
port = int(sys.argv[2].partition("=")[2])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in known else 404)
        self.end_headers()
    def log_message(self, *_):
        pass

if known == ["silent"]:
    listener = socket.create_server(("127.0.0.1", port))
elif known:
    web = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
stub = subprocess.Popen([stub, "60"])
print(stub.pid, flush=True)
for _ in sys.stdin:
    stub.wait()
    print("reaped", flush=True)
signal.pause()
"""


class Server:
    """A process named tritonserver with a child named like its stub."""

    def __init__(self, folder: Path, *paths: str) -> None:
        python, stub = folder / watch_stubs.SERVER, folder / watch_stubs.STUB
        python.symlink_to(sys.executable)
        stub.symlink_to("/bin/sleep")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [python, "-S", "-c", SERVER, stub, f"{watch_stubs.PORT_FLAG}{port}", *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stub = int(self.line())

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def reap(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def watch(self) -> threading.Thread:
        watcher = threading.Thread(target=watch_stubs.main, args=(self.process.pid,))
        watcher.start()
        time.sleep(0.1)
        return watcher

    def end(self) -> None:
        with self.process:
            self.process.kill()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Server]]:
    running: list[Server] = []
    yield running
    for server in running:
        server.end()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_stubs, "LOOK_S", 0.02)
    monkeypatch.setattr(watch_stubs, "UNREAPED_S", 0.3)
    monkeypatch.setattr(watch_stubs, "ANSWER_S", 0.3)
    monkeypatch.setattr(watch_stubs, "name_of", lambda _: MODEL)
    monkeypatch.setattr(os, "closerange", lambda *_: None)
    monkeypatch.delenv("SAGEMAKER_MULTI_MODEL", raising=False)


def start(servers: list[Server], folder: Path, *paths: str) -> Server:
    servers.append(Server(folder, *paths))
    return servers[-1]


@pytest.mark.parametrize(
    ("number", "cause"), [(signal.SIGKILL, "signal 9"), (signal.SIGSEGV, "signal 11")], ids=["kill", "crash"]
)
def test_a_dead_stub_ends_the_server(servers, tmp_path, capsys, number, cause):
    server = start(servers, tmp_path, "/ping")
    watcher = server.watch()
    os.kill(server.stub, number)
    assert server.process.wait(10) == -signal.SIGTERM
    watcher.join(10)
    assert not watcher.is_alive()
    stderr = capsys.readouterr().err
    assert MODEL in stderr
    assert cause in stderr


def test_a_server_that_does_not_exit_is_killed(servers, tmp_path, monkeypatch):
    monkeypatch.setattr(watch_stubs, "GRACE_S", 0.1)
    monkeypatch.setattr(signal, "SIGTERM", signal.SIGCONT)  # a signal that changes nothing
    server = start(servers, tmp_path, "/ping")
    watcher = server.watch()
    os.kill(server.stub, signal.SIGKILL)
    assert server.process.wait(10) == -signal.SIGKILL
    watcher.join(10)


@pytest.mark.parametrize(
    ("known", "ends"),
    [("/models/abc", True), ("silent", True), ("/models/other", False)],
    ids=["loaded", "stuck in an unload", "never loaded"],
)
def test_many_models(servers, tmp_path, monkeypatch, known, ends):
    monkeypatch.setenv("SAGEMAKER_MULTI_MODEL", "true")
    server = start(servers, tmp_path, known)
    watcher = server.watch()
    os.kill(server.stub, signal.SIGKILL)
    if not ends:
        time.sleep(1)
        assert server.process.poll() is None
        server.end()
    assert server.process.wait(10) in (-signal.SIGTERM, -signal.SIGKILL)
    watcher.join(10)
    assert not watcher.is_alive()


@pytest.mark.parametrize("known", [(), ("/ping",)], ids=["still starting", "reaped"])
def test_other_exit_reasons_are_not_an_error(servers, tmp_path, known):
    server = start(servers, tmp_path, *known)
    watcher = server.watch()
    os.kill(server.stub, signal.SIGKILL)
    if known:
        server.reap()
        assert server.line() == "reaped\n"
    time.sleep(0.8)
    assert watcher.is_alive()
    assert server.process.poll() is None
    server.end()
    watcher.join(10)
    assert not watcher.is_alive()


def test_one_watcher_per_server_and_none_for_other_processes(servers, tmp_path):
    server = start(servers, tmp_path)
    watcher = server.watch()
    watch_stubs.main(server.process.pid)
    watch_stubs.main(os.getpid())
    watch_stubs.main(2**22 + 1)
    assert watcher.is_alive()
    server.end()
    watcher.join(10)
