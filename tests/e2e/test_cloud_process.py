"""The embedded cloud as a process: however it ends, everything it started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from local_cloud.process import read_address
from tests.e2e.conftest import Site

pytestmark = pytest.mark.e2e


def await_gone(*pids: int, within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if is_alive(pid)]}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """A zombie has ended: what is left of it is its parent's business."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_address(site: Site, within_s: float = 30) -> int:
    deadline = time.monotonic() + within_s
    while (address := read_address(site.project.cloud_dir())) is None:
        assert time.monotonic() < deadline, "the cloud did not come up"
        time.sleep(0.05)
    return address.pid


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_it_says_where_it_is_and_ends_with_a_signal(
    site: Site, ending: signal.Signals
) -> None:
    process = site.start("tritonstack", "up")
    pid = await_address(site)
    os.kill(pid, ending)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output
    assert "the embedded cloud listens on http://localhost:" in output
    assert read_address(site.project.cloud_dir()) is None


def test_in_the_foreground_it_ends_with_its_parent(site: Site) -> None:
    start = "import subprocess, sys, time; subprocess.Popen(['tritonstack', 'up']); time.sleep(600)"
    parent = subprocess.Popen(
        [sys.executable, "-c", start],
        cwd=site.project.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        pid = await_address(site)
    finally:
        parent.kill()
        parent.wait()
    await_gone(pid)


def test_killed_outright_it_leaves_nothing_that_the_next_one_stumbles_over(site: Site) -> None:
    site.tritonstack("up", "--detach")
    pid = site.address.pid
    os.kill(pid, signal.SIGKILL)
    await_gone(pid)
    site.tritonstack("up", "--detach")
    assert site.address.pid != pid
    site.tritonstack("down")


def test_two_clouds_run_side_by_side(site: Site) -> None:
    beside = Site(site.project, {"TRITONSTACK_CLOUD": "beside"})
    site.tritonstack("up", "--detach")
    try:
        output = beside.tritonstack("up", "--detach")
        assert str(site.address.port) not in output
    finally:
        beside.tritonstack("down")
        site.tritonstack("down")
