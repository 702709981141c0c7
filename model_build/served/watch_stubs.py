"""Ends tritonserver when one of its Python model processes has died.

Triton runs each instance of a Python model in its own process, the stub. When a stub dies, Triton does not
restart it: /ping still answers 200, every request of the model fails, and unloading the model blocks the
server for minutes. Ending the server ends the container, and SageMaker replaces a container that has ended.

A stub that ends in the ordinary way (unload, reload, shutdown, failed load) is reaped by the server within
two seconds. One that the server does not expect to end stays a zombie. If its model was never loaded, only
that load hangs, and the server stays. One process watches all stubs of a
server, whichever environment started it. It looks once per second and ends with the server.

`bin/activate` starts it. Triton 25.08 and later run no script of an environment; there watch_stubs.pth
starts it, from inside the stub.
"""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

SERVER = "tritonserver"
STUB = "triton_python_backend_stub"
COMMAND_LENGTH = 15  # the kernel cuts the names of commands
LOOK_S = 1.0
# A stub that dies while its model loads stays a zombie for up to two seconds, until the load fails.
UNREAPED_S = 5.0
# The other models may finalize in this time. A dead stub makes a graceful exit take 30 s.
GRACE_S = 2.0
ANSWER_S = 5.0
PORT_FLAG = "--sagemaker-port="


class Process:
    """What /proc tells about a process at one moment."""

    def __init__(self, pid: int) -> None:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        command, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        self.pid = pid
        self.command = command
        self.state = fields[0]
        self.parent = int(fields[1])
        self.started = int(fields[19])
        self.exit_code = int(fields[49])

    @property
    def ended(self) -> bool:
        """Whether it has ended, reaped by its parent or not."""
        return self.state in "ZX"

    @property
    def identity(self) -> tuple[int, int]:
        """Distinguish it from a later process with the same id."""
        return self.pid, self.started


def start() -> None:
    """Start the watcher in the background if this process is a stub."""
    server = look(os.getppid())
    if server is None or server.command != SERVER:
        return
    # The shell returns at once, so that the model's code never meets a child that it has not started.
    command = '"$0" -I -S "$1" "$2" </dev/null &'
    python = f"{sys.prefix}/bin/python3"
    subprocess.run(["/bin/sh", "-c", command, python, __file__, str(server.pid)], check=False)


def main(server_pid: int) -> None:
    """Watch the stubs of a server until one dies or the server ends."""
    server = look(server_pid)
    if server is None or server.command != SERVER:
        return
    os.closerange(3, 4096)  # the server's sockets, which the stub's shell has inherited
    only_one = socket.socket(socket.AF_UNIX)
    try:
        only_one.bind(f"\0tritonstack-watch-stubs-{server.pid}-{server.started}")
    except OSError:  # another process watches this server
        return
    names: dict[int, str] = {}
    seen: dict[tuple[int, int], float] = {}
    while is_running(server):
        stubs = stubs_of(server)
        names = {stub.pid: names.get(stub.pid, "") if stub.ended else name_of(stub) for stub in stubs}
        now = time.monotonic()
        dead = [stub for stub in stubs if stub.ended]
        seen = {stub.identity: seen.get(stub.identity, now) for stub in dead}
        for stub in dead:
            if now - seen[stub.identity] < UNREAPED_S:
                continue
            if serves(server, names[stub.pid]):
                end(server, stub, names[stub.pid] or "a model")
                return
            seen[stub.identity] = now
        time.sleep(LOOK_S)


def look(pid: int) -> "Process | None":
    """Read a process; None if there is no such process."""
    try:
        return Process(pid)
    except OSError:
        return None


def is_running(server: Process) -> bool:
    """Return whether the server has not ended."""
    now = look(server.pid)
    return now is not None and now.started == server.started and not now.ended


def stubs_of(server: Process) -> list[Process]:
    """List the stubs that the server has started and not reaped."""
    processes = (look(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    command = STUB[:COMMAND_LENGTH]
    return [one for one in processes if one and one.parent == server.pid and one.command == command]


def name_of(stub: Process) -> str:
    """Return the path of the stub's model.py, which is its first argument."""
    return [*arguments_of(stub), "", ""][1]


def arguments_of(process: Process) -> list[str]:
    """Read a command line; empty for a process that has ended."""
    try:
        text = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return text.split("\0")


def serves(server: Process, path: str) -> bool:
    """Return whether the server offers the model whose model.py has this path.

    A server that starts or stops refuses connections. One that unloads a model with a dead stub accepts them
    and does not answer.
    """
    flags = [one for one in arguments_of(server) if one.startswith(PORT_FLAG)]
    port = int(flags[-1].removeprefix(PORT_FLAG)) if flags else 8080
    try:
        if os.environ.get("SAGEMAKER_MULTI_MODEL") != "true":
            return status_of(port, "/ping") > 0
        # One folder on the way to model.py has the name under which SageMaker has loaded the model.
        return any(status_of(port, f"/models/{name}") == 200 for name in path.split("/") if name)
    except TimeoutError:
        return True
    except (OSError, http.client.HTTPException):
        return False


def status_of(port: int, path: str) -> int:
    """Send a GET request to the server and return the status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def end(server: Process, stub: Process, model: str) -> None:
    """End the server, by force if it takes too long."""
    sig = stub.exit_code & 0x7F
    cause = f"was killed by signal {sig}" if sig else f"exited with status {stub.exit_code >> 8}"
    print(
        f"tritonstack: the Python process of {model} {cause}. Triton cannot restart it; "
        "ending tritonserver so that the container is replaced.",
        file=sys.stderr,
        flush=True,
    )
    os.kill(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while is_running(server):
        if time.monotonic() > deadline:
            os.kill(server.pid, signal.SIGKILL)
            return
        time.sleep(0.05)


if __name__ == "__main__":
    main(int(sys.argv[1]))
