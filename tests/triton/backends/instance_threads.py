"""Count the threads of a server's model instances."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tritonstack.triton import TritonServer


def instance_threads(server: TritonServer) -> list[int]:
    """Return the number of threads of each process that runs an instance."""
    counts = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if command[0].endswith(b"stub") and os.getsid(int(folder.name)) == os.getsid(server.pid):
                counts.append(len(list((folder / "task").iterdir())))
    return counts
