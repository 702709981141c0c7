"""The watcher of Python stubs, around processes that have the names of Triton's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from model_build.served import watch_stubs

# Starts a stub and says which process it is. A line on stdin makes it reap a stub, as Triton does.
SERVER = """
import os, signal, subprocess, sys
stub = subprocess.Popen([sys.argv[1], "60"])
print(stub.pid, flush=True)
for _ in sys.stdin:
    stub.wait()
    print("reaped", flush=True)
signal.pause()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    python, stub = tmp_path / watch_stubs.SERVER, tmp_path / watch_stubs.STUB
    python.symlink_to(sys.executable)
    stub.symlink_to("/bin/sleep")
    process = subprocess.Popen(
        [python, "-S", "-c", SERVER, stub], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield process
        process.kill()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_stubs, "LOOK_S", 0.02)
    monkeypatch.setattr(watch_stubs, "UNREAPED_S", 0.3)
    monkeypatch.setattr(os, "closerange", lambda *_: None)


def stub_of(server: subprocess.Popen[str]) -> int:
    assert server.stdout is not None
    return int(server.stdout.readline())


def watch(server: subprocess.Popen[str]) -> threading.Thread:
    watcher = threading.Thread(target=watch_stubs.main, args=(server.pid,))
    watcher.start()
    time.sleep(0.1)
    return watcher


@pytest.mark.parametrize(
    ("number", "cause"), [(signal.SIGKILL, "signal 9"), (signal.SIGSEGV, "signal 11")], ids=["kill", "crash"]
)
def test_a_stub_that_nobody_reaps_ends_the_server(
    server: subprocess.Popen[str], capsys: pytest.CaptureFixture[str], number: int, cause: str
) -> None:
    stub = stub_of(server)
    watcher = watch(server)
    os.kill(stub, number)
    assert server.wait(10) == -signal.SIGTERM
    watcher.join(10)
    assert not watcher.is_alive()
    assert f"was killed by {cause}." in capsys.readouterr().err


def test_a_server_that_does_not_exit_is_killed(
    server: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_stubs, "GRACE_S", 0.1)
    stub = stub_of(server)
    monkeypatch.setattr(signal, "SIGTERM", signal.SIGCONT)  # a signal that changes nothing
    watcher = watch(server)
    os.kill(stub, signal.SIGKILL)
    assert server.wait(10) == -signal.SIGKILL
    watcher.join(10)


def test_a_stub_that_the_server_reaps_is_no_fault(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    stub = stub_of(server)
    watcher = watch(server)
    server.stdin.write("\n")
    server.stdin.flush()
    os.kill(stub, signal.SIGKILL)
    assert server.stdout.readline() == "reaped\n"
    time.sleep(0.6)
    assert watcher.is_alive()
    assert server.poll() is None
    server.kill()
    server.wait()
    watcher.join(10)
    assert not watcher.is_alive()


def test_one_watcher_per_server_and_none_for_other_processes(server: subprocess.Popen[str]) -> None:
    stub_of(server)
    watcher = watch(server)
    watch_stubs.main(server.pid)
    watch_stubs.main(os.getpid())
    watch_stubs.main(2**22 + 1)
    assert watcher.is_alive()
    server.kill()
    server.wait()
    watcher.join(10)
