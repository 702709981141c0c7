"""Ways out of a sandbox, tried from inside: `python attempts.py TARGETS` prints those that worked.

Tests run this file in a model and in a build; it needs only Python and Linux. TARGETS is JSON: see
targets.py.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER = 0x10000000
MS_REMOUNT, MS_BIND = 32, 4096
PTRACE_SEIZE = 0x4206
"""Unlike an attachment, it does not stop the process."""
ADD_KEY, REQUEST_KEY, BPF, PERF_EVENT_OPEN, IO_URING_SETUP = 248, 249, 321, 298, 425
AF_VSOCK = 40
CAP_SETFCAP = 1 << 31
"""A process needs it to map its user into another namespace."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the machine's, unless it is another


def _call(function: Callable[..., int], *arguments: object) -> bool:
    if function(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True


def _write(path: str) -> bool:
    with open(path, "a") as file:
        file.write("an escaped model was here\n")
    return True


def _connect(address: Any, family: int = socket.AF_UNIX) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        connection.connect(address)
    return True


def _in_child(function: Callable[[], bool]) -> bool:
    """Try what would change this process."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if function() else 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _remount() -> bool:
    return _call(libc.mount, None, b"/usr", None, MS_REMOUNT | MS_BIND, None)


def _mounted() -> bool:
    folder = tempfile.mkdtemp()
    return _call(libc.mount, b"tmpfs", folder.encode(), b"tmpfs", 0, None)


def _open_folder_leads_out(secret: str) -> bool:
    """Walk up from every open descriptor."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISDIR(os.fstat(int(name)).st_mode):
                continue
            folder = int(name)
            for _ in range(20):
                folder = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
            os.close(os.open(secret.lstrip("/"), os.O_RDONLY, dir_fd=folder))
        except OSError:
            continue
        return True
    return False


def _controls() -> list[int]:
    """Return the descriptors of a supervisor's channel: no other socket has its kind."""
    controls = []
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as descriptor:
                if (descriptor.family, descriptor.type) == (socket.AF_UNIX, socket.SOCK_SEQPACKET):
                    controls.append(int(name))
        except OSError:
            continue
    return controls


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1], 16)
    raise OSError(errno.ENOENT, name)


def _proxied(proxy: str, host: str, port: int) -> bool:
    """Ask the proxy of a build for a host."""
    address, _, number = proxy.rpartition("/")[2].rpartition(":")
    with socket.create_connection((address, int(number)), timeout=5) as connection:
        connection.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        return connection.recv(64).split(b" ")[1:2] == [b"200"]


def _device_made() -> bool:
    os.mknod(os.path.join(tempfile.mkdtemp(), "disk"), stat.S_IFBLK | 0o600, os.makedev(254, 0))
    return True


def _devices() -> bool:
    """Whether a device is there that is no stream of zeros or random numbers."""
    usual = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "console", "shm", "mqueue"}
    return any(
        stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode)
        or stat.S_ISCHR(entry.stat(follow_symlinks=False).st_mode)
        for entry in os.scandir("/dev")
        if entry.name not in usual and not entry.name.startswith("nvidia")
    )


def attempts(targets: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return each attempt; it succeeds if it returns something true."""
    home, project, state = targets["home"], targets["project"], targets["state"]
    secret, pid, port = targets["secret"], targets["pid"], targets["port"]
    by_name: dict[str, Callable[[], object]] = {
        "write the home folder": lambda: _write(f"{home}/{targets['mark']}"),
        "list the home folder": lambda: os.path.basename(secret) in os.listdir(home),
        "list the home folders of others": lambda: set(os.listdir("/home")) - {"builder"},
        "read a file of mode 0600": lambda: Path(secret).read_text(),
        "append to a file of the user": lambda: _write(secret),
        "write the project": lambda: _write(f"{project}/{targets['mark']}"),
        "read the project": lambda: Path(project, "secret").read_text(),
        "write the state": lambda: _write(f"{state}/{targets['mark']}"),
        "read the secret of the cloud": lambda: Path(state, "secret").read_text(),
        "write programs": lambda: _write(f"/usr/local/bin/{targets['mark']}"),
        "write settings": lambda: _write(f"/etc/{targets['mark']}"),
        "write Python": lambda: _write(os.path.join(os.path.dirname(os.__file__), targets["mark"])),
        "read the passwords": lambda: Path("/etc/shadow").read_text(),
        "connect to a Unix socket": lambda: _connect(targets["socket"]),
        "connect to an abstract socket": lambda: _connect("\0" + targets["abstract"]),
        "find the socket of Docker": lambda: any(
            os.path.exists(path) for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/user")
        ),
        "connect to a service of the machine": lambda: _connect(("127.0.0.1", port), socket.AF_INET),
        "have a network interface": lambda: [name for _, name in socket.if_nameindex() if name != "lo"],
        "reach the hypervisor": lambda: socket.socket(AF_VSOCK, socket.SOCK_STREAM),
        "signal a process of the user": lambda: os.kill(pid, 0) is None and _named(pid, targets["mark"]),
        "see a process of the user": lambda: any(
            _named(int(name), targets["mark"]) for name in os.listdir("/proc") if name.isdecimal()
        ),
        "read through the root of process 1": lambda: Path(f"/proc/1/root{secret}").read_text(),
        "read through its folder": lambda: Path(f"/proc/1/cwd{secret}").read_text(),
        "leave by an open folder": lambda: _open_folder_leads_out(secret),
        "hold the channel of the supervisor": _controls,
        "mount": lambda: _in_child(_mounted),
        "make a mount writable": lambda: _in_child(_remount),
        "make a device": _device_made,
        "find a device": _devices,
        "trace process 1": lambda: _in_child(lambda: _call(libc.ptrace, PTRACE_SEIZE, 1, None, None)),
        "change the user": lambda: _in_child(lambda: os.setuid(1) is None),
        "change the root": lambda: _in_child(lambda: os.chroot(tempfile.gettempdir()) is None),
        "enter the namespaces of process 1": lambda: _in_child(
            lambda: _call(libc.setns, os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)
        ),
        "hold a capability": lambda: (
            (_status("CapEff") | _status("CapPrm") | _status("CapBnd")) & ~(targets["nests"] * CAP_SETFCAP)
        ),
        "gain privileges by a program": lambda: not _status("NoNewPrivs"),
        "use every system call": lambda: not _status("Seccomp"),
        "change the kernel": lambda: [
            path
            for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper")
            if os.path.exists(path) and os.close(os.open(path, os.O_WRONLY)) is None
        ],
        "read shared memory of the machine": lambda: targets["mark"] in os.listdir(SHARED_MEMORY),
        "use the keys of the user": lambda: _call(
            libc.syscall, ADD_KEY, b"user", targets["mark"].encode(), b"x", 1, -3
        ),
        "load a program into the kernel": lambda: _kernel_interface(BPF),
        "watch the kernel": lambda: _kernel_interface(PERF_EVENT_OPEN),
        "use io_uring": lambda: _kernel_interface(IO_URING_SETUP),
        "write the model": lambda: _write(f"{targets['own']}/{targets['mark']}"),
    }  # fmt: skip
    if not targets["nests"]:
        by_name["make a user namespace"] = lambda: _in_child(lambda: _call(libc.unshare, CLONE_NEWUSER))
    if proxy := targets.get("proxy"):
        by_name["reach a service of the machine by the proxy"] = lambda: _proxied(
            os.environ[proxy], "localhost", port
        )
        by_name["reach another host by the proxy"] = lambda: _proxied(os.environ[proxy], "example.com", 443)
    return by_name


def _kernel_interface(number: int) -> bool:
    """Whether the kernel looks at the arguments of a call, instead of refusing it."""
    libc.syscall(number, 0, None, 0, 0, 0)
    return ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS, errno.EACCES)


def _named(pid: int, mark: str) -> bool:
    return f"{mark}-process".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()


def successes(targets: dict[str, Any]) -> list[str]:
    """Return what succeeded."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    names = []
    for name, attempt in attempts(targets).items():
        try:
            if attempt():
                names.append(name)
        except (OSError, ValueError, LookupError):
            continue
    return names


if __name__ == "__main__":
    print("ESCAPED", json.dumps(successes(json.loads(sys.argv[1]))), flush=True)
