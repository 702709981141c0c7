"""The sandbox alone, around a command that is not a server."""

from __future__ import annotations

import os
from pathlib import Path

from tritonstack.runtime.inside.supervisor import Order
from tritonstack.runtime.sandbox import Sandbox


def test_a_stopped_sandbox_holds_no_file_open(tmp_path: Path) -> None:
    order = Order(
        argv=["/bin/sleep", "60"],
        environment={},
        port=8080,
        notices=[],
        folders=[],
        mounts=None,
        shared_memory_prefix="no_such_region_",
    )
    before = set(os.listdir("/proc/self/fd"))
    sandbox = Sandbox.start(order=order, log=tmp_path / "log")
    assert sandbox.stop(grace_s=30) == 128 + 15
    assert set(os.listdir("/proc/self/fd")) == before
