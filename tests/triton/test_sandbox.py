"""The sandbox alone, around a command that is not a server."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests.escapes import attempts
from tritonstack.triton.errors import TritonRequestError
from tritonstack.triton.inside.supervisor import Order
from tritonstack.triton.sandbox import ANSWER_S, Sandbox


def started(log: Path, *argv: str) -> Sandbox:
    order = Order(
        argv=list(argv or ("/bin/sleep", "60")),
        environment={},
        port=8080,
        notices=[],
        folders=[],
        mounts=None,
        shared_memory_prefix="no_such_region_",
    )
    return Sandbox.start(order=order, log=log)


def test_a_stopped_sandbox_holds_no_file_open(tmp_path):
    before = set(os.listdir("/proc/self/fd"))
    assert started(tmp_path / "log").stop(grace_s=30) == 128 + 15
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_command_does_not_inherit_the_channel(tmp_path):
    folder = Path(attempts.__file__).parent
    code = f"import sys; sys.path.append({str(folder)!r}); import attempts; print(attempts._controls())"
    sandbox = started(tmp_path / "log", sys.executable, "-I", "-c", code)
    assert sandbox._process.wait(60) == 0
    assert (tmp_path / "log").read_text() == "[]\n"
    sandbox.kill()


def test_a_supervisor_that_does_not_answer_blocks_neither_questions_nor_the_stop(tmp_path):
    sandbox = started(tmp_path / "log")
    assert sandbox.shared_memory_held() == 0  # it has begun
    assert sandbox._channel.gettimeout() == ANSWER_S
    sandbox._channel.settimeout(0.1)
    os.kill(sandbox.pid, signal.SIGSTOP)
    with pytest.raises(TritonRequestError):
        sandbox.shared_memory_held()
    os.kill(sandbox.pid, signal.SIGCONT)
    assert sandbox._process.wait(30) == 128 + 9
    other = started(tmp_path / "other")
    with other._lock:  # as while another thread waits for an answer
        stopping = threading.Thread(target=other.stop, kwargs={"grace_s": 30}, daemon=True)
        stopping.start()
        stopping.join(20)
        assert not stopping.is_alive()
