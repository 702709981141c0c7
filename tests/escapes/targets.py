"""What attempts.py tries to reach: files, sockets, services and processes of this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tritonstack.base.paths import find_project

ATTEMPTS = Path(__file__).with_name("attempts.py")
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the machine's


@contextmanager
def targets_of_a_sandbox(
    *, own: str, nests: bool, state: Path | None = None, **more: Any
) -> Iterator[dict[str, Any]]:
    """Make the targets, which end with the context; `own` is the sandbox's read-only folder.

    `state` is the folder of a cloud with its secret.
    """
    mark = f"escape-of-a-test-{uuid.uuid4().hex[:12]}"
    project = find_project(Path(__file__).parent).root
    with ExitStack() as stack:
        home, away, project_folder = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f".{mark}-", dir=folder)))
            for folder in (Path.home(), "/var/tmp", project)  # noqa: S108 - none of them is hidden by a new /tmp
        )
        for folder in (home, project_folder):
            (folder / "secret").write_text("of the user")
            (folder / "secret").chmod(0o600)
        (SHARED_MEMORY / mark).touch()
        # What a model that escapes leaves.
        for folder in (SHARED_MEMORY, Path("/etc"), Path("/usr/local/bin"), Path(os.__file__).parent):
            stack.callback((folder / mark).unlink, missing_ok=True)
        _listen(stack, socket.AF_UNIX, f"\0{mark}")
        _listen(stack, socket.AF_UNIX, str(away / "socket"))
        port = _listen(stack, socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1]
        process = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", "input()", f"{mark}-process"], stdin=subprocess.PIPE)
        )
        stack.callback(process.kill)
        yield {
            "home": str(home),
            "project": str(project_folder),
            "state": str(state or project_folder),
            "secret": str(home / "secret"),
            "socket": str(away / "socket"),
            "abstract": mark,
            "port": port,
            "pid": process.pid,
            "mark": mark,
            "own": own,
            "nests": nests,
            **more,
        }


def _listen(stack: ExitStack, family: int, address: Any) -> socket.socket:
    listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
    listener.bind(address)
    listener.listen()
    return listener


def escaped(log: str) -> list[str]:
    """Return what succeeded, from the output of attempts.py."""
    line = next(line for line in log.splitlines() if line.startswith("ESCAPED "))
    names: list[str] = json.loads(line.removeprefix("ESCAPED "))
    return names
