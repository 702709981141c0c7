"""The first process of a sandbox: prepare it, start the server, and end everything at the right time.

It runs as a script (`python -I supervisor.py CHANNEL_FD`), in new namespaces if sandbox.py could create them,
so it imports only private_root.py from the project. The channel is one end of a socket pair; the parent has
the other. The first message is the order (see Order), each later one a letter:

c   connect to the server's port; the reply has the connected socket, or an error message m   measure the
shared memory of the server and its models; the reply is the number of bytes w   measure their memory, private
and shared s   stop the server gracefully

The end of the channel means that the parent has ended: everything is stopped. Because this process is the
first one of its process namespace, the kernel then kills all others in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import struct
import sys
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING or __package__:
    from tritonstack.triton.inside.private_root import SHARED_MEMORY, Mount, enter
else:
    sys.path.append(os.path.dirname(__file__))
    from private_root import SHARED_MEMORY, Mount, enter

CONNECT, MEASURE, WEIGH, STOP = b"c", b"m", b"w", b"s"
MAX_MESSAGE = 1 << 18
PROBE = "--probe"
"""Instead of a channel: only enter an empty root, which fails if this system forbids it."""

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


class Order(TypedDict):
    """The parent's request."""

    argv: list[str]
    environment: dict[str, str]
    port: int
    notices: list[str]
    folders: list[str]
    mounts: list[Mount] | None
    """None without namespaces: then everything on the machine is in reach."""
    shared_memory_prefix: str | None
    """Without namespaces, the prefix of the server's shared memory names."""


def main(channel: socket.socket) -> int:
    """Run one order; return the server's exit status."""
    channel.set_inheritable(False)  # the server must not answer, or end, for this process
    order: Order = json.loads(channel.recv(MAX_MESSAGE))
    if order["mounts"] is not None:
        raise_loopback()
        enter(order["mounts"])
    for folder in order["folders"]:
        os.makedirs(folder, exist_ok=True)
    for notice in order["notices"]:
        print(notice, flush=True)
    wakeup = wake_on_signals()
    server = os.posix_spawn(
        order["argv"][0],
        order["argv"],
        order["environment"],
        setpgroup=0,
        setsigdef=[signal.SIGPIPE],  # Python ignores it; the server needs the default
        setsigmask=[],
    )
    try:
        return _watch(server, channel, wakeup, order)
    finally:
        _end_all(server, order["shared_memory_prefix"])


def wake_on_signals() -> socket.socket:
    """Return a socket that is readable when a child has ended or this process receives a signal."""
    wakeup, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.detach())
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return wakeup


def _watch(server: int, channel: socket.socket, wakeup: socket.socket, order: Order) -> int:
    """Serve the channel until the server or the parent has ended."""
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is channel:
                    try:
                        message = channel.recv(16)
                        if message:
                            _answer(message, channel, server, order)
                            continue
                    except (BrokenPipeError, ConnectionResetError):
                        pass  # the parent did not wait for the answer
                    return 128 + signal.SIGKILL
                if any(number != signal.SIGCHLD for number in wakeup.recv(64)):
                    os.kill(server, signal.SIGTERM)
                status = _reap(server)
                if status is not None:
                    return status


def _answer(message: bytes, channel: socket.socket, server: int, order: Order) -> None:
    if message == STOP:
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, signal.SIGTERM)
        return
    if message == MEASURE:
        channel.send(str(_shared_memory_held(order["shared_memory_prefix"] or "")).encode())
        return
    if message == WEIGH:
        shared = _shared_memory_held(order["shared_memory_prefix"] or "")
        channel.send(str(_private_memory_held(server) + shared).encode())
        return
    try:
        connection = socket.create_connection(("127.0.0.1", order["port"]), timeout=5)
    except OSError as error:
        channel.send(str(error).encode())
        return
    with connection:
        socket.send_fds(channel, [b"ok"], [connection.fileno()])


def _shared_memory_held(prefix: str) -> int:
    """Return the allocated memory, which is less than the file sizes while pages are untouched."""
    total = 0
    with os.scandir(SHARED_MEMORY) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                with contextlib.suppress(FileNotFoundError):
                    total += entry.stat().st_blocks * 512
    return total


def _private_memory_held(group: int) -> int:
    """Return the private memory of the server's process group, without mapped files."""
    total = 0
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if os.getpgid(int(name)) == group:
                total += _anonymous_bytes(f"/proc/{name}/status")
    return total


def _anonymous_bytes(status: str) -> int:
    with open(status) as lines:
        for line in lines:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0  # it has ended but was not collected yet


def _reap(server: int) -> int | None:
    """Collect all ended children and orphans; return the server's exit status if it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == server:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _end_all(server: int, shared_memory_prefix: str | None) -> None:
    """End the server's remaining processes if there is no namespace that does it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server, signal.SIGKILL)
    if shared_memory_prefix is None:
        return
    for name in os.listdir(SHARED_MEMORY):
        if name.startswith(shared_memory_prefix):
            os.unlink(f"{SHARED_MEMORY}/{name}")


def raise_loopback() -> None:
    """Enable the only interface of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


if __name__ == "__main__":
    os.chdir("/")
    if sys.argv[1] == PROBE:
        raise_loopback()
        enter([])
    else:
        sys.exit(main(socket.socket(fileno=int(sys.argv[1]))))
