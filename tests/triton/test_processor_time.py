"""CPU time of process trees whose processes end at any time."""

import os
import subprocess
import sys
import time

from tritonstack.triton import processor_time
from tritonstack.triton.processor_time import processor_seconds, tree


def test_children_are_counted():
    code = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    before = processor_seconds(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in list(tree(os.getpid()))
        assert processor_seconds(os.getpid()) - before >= 0.15
        child.communicate(b"\n")


def test_a_process_that_has_ended_counts_as_nothing(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert list(tree(child.pid)) == [child.pid]
    assert processor_seconds(child.pid) == 0
    monkeypatch.setattr(processor_time, "tree", lambda pid: iter([pid, child.pid]))
    assert 0 < processor_seconds(os.getpid()) <= time.process_time() + 1
