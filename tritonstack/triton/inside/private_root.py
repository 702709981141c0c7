"""A root folder that contains only what a process needs, and a process without privileges.

The supervisor of a server and the agent of a build call `enter` as the first process of new namespaces. They
run as scripts, so this module imports nothing from the project. It is an allow-list, as in bubblewrap: the
new root is an empty tmpfs with the system's programs and libraries, a few files of /etc, a minimal /dev, a
read-only /proc, and the given mounts. Everything else on the machine has no path here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where Triton's Python backend keeps its regions

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
MNT_DETACH = 2

# Programs and libraries. Where these are links (/bin -> usr/bin), the new root has the same links.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
# Which processors and GPUs the machine has.
_HARDWARE = ("/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/module")
# What libraries read of the system's settings; nothing that can hold a password or a key.
_SETTINGS = (
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "fonts",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_GPU = "nvidia"
"""What the names of GPU devices in /dev begin with."""
_EMPTY = ("home", "mnt", "opt", "root", "run", "srv", "var")
_LINKS = {
    "var/run": "../run",
    "var/tmp": "../tmp",
    "dev/fd": "/proc/self/fd",
    "dev/stdin": "/proc/self/fd/0",
    "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
}
_HERE = "/tmp"  # noqa: S108 - a folder that every system has; the new root is mounted there first


class Mount(TypedDict):
    """A file or folder of the machine, and its path in the new root."""

    source: str
    target: str
    writable: bool


def shown(source: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> Mount:
    """Return a read-only mount, at the same path unless another is named."""
    return Mount(source=os.fspath(source), target=os.fspath(target or source), writable=False)


def enter(mounts: Sequence[Mount], *, nests: bool = False) -> None:
    """Move this process into a root with these mounts, and give up every privilege.

    `nests` lets its children create user namespaces: a build starts servers in their own.
    """
    # This process goes on importing modules.
    ordered = _without_repetitions([*_of_the_system(), shown(sys.base_prefix), *mounts])
    # The new root's mount hides what is below its folder.
    sources = [os.open(mount["source"], os.O_PATH | os.O_CLOEXEC) for mount in ordered]
    _mount_tmpfs(_HERE, mode="0755")
    for name in _EMPTY:
        os.mkdir(f"{_HERE}/{name}")
    for name in ("tmp", SHARED_MEMORY[1:]):
        os.makedirs(f"{_HERE}/{name}")
        _mount_tmpfs(f"{_HERE}/{name}", mode="1777")
    for name, target in _LINKS.items():
        os.symlink(target, f"{_HERE}/{name}")
    for path in _SYSTEM:
        if os.path.islink(path):
            os.symlink(os.readlink(path), _HERE + path)
    for mount, source in zip(ordered, sources, strict=True):
        _bind(source, _HERE + mount["target"])
    closed = _mount_proc(nests=nests)
    _change_root(_HERE)
    own = {"/": False, "/tmp": True, SHARED_MEMORY: True, "/proc": nests}  # noqa: S108 - the process's own
    _forbid_writing(
        own | dict.fromkeys(closed, False) | {mount["target"]: mount["writable"] for mount in ordered}
    )
    _give_up_privileges(nests=nests)


def _of_the_system() -> Iterator[Mount]:
    paths = [path for path in _SYSTEM if not os.path.islink(path)]
    paths += [*_HARDWARE, *(f"/etc/{name}" for name in _SETTINGS)]
    paths += [f"/dev/{name}" for name in os.listdir("/dev") if name in _DEVICES or name.startswith(_GPU)]
    for path in paths:
        if os.path.exists(path):
            yield shown(path)


def _without_repetitions(mounts: Sequence[Mount]) -> list[Mount]:
    """Sort by target, outer folders first; leave out what an outer one shows at the same path anyway."""
    kept: dict[str, Mount] = {}
    for mount in sorted(mounts, key=lambda mount: mount["target"].count("/")):
        outer = next((kept[folder] for folder in _parents(mount["target"]) if folder in kept), None)
        repeats = outer is not None and outer["source"] == outer["target"]
        if mount["writable"] or mount["source"] != mount["target"] or not repeats:
            kept[mount["target"]] = mount
    return list(kept.values())


def _parents(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _bind(source: int, target: str) -> None:
    """Mount an opened file or folder at another path too."""
    if os.path.isdir(f"/proc/self/fd/{source}"):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC, 0o600))
    _mount(f"/proc/self/fd/{source}", target, None, MS_BIND | MS_REC)
    os.close(source)


def _mount_proc(*, nests: bool) -> list[str]:
    """Mount /proc; return what is mounted below it, to be made read-only.

    Files such as /proc/sysrq-trigger ask for the user, who may be root, not for a capability, so it is
    read-only. To map the users of another namespace, however, a process writes to its own folder there: then
    only the rest is read-only. As the kernel lets a namespace mount a /proc only if another namespace's is
    whole, there is a second one.
    """
    for folder in ("proc", "run/proc") if nests else ("proc",):
        os.mkdir(f"{_HERE}/{folder}")
        flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
        _mount(
            "proc", f"{_HERE}/{folder}", "proc", flags if nests and folder == "proc" else flags | MS_RDONLY
        )
    if not nests:
        return []
    with os.scandir(f"{_HERE}/proc") as entries:
        shared = [entry.name for entry in entries if not entry.name.isdecimal() and _can_be_written(entry)]
    for name in shared:
        _mount(f"{_HERE}/proc/{name}", f"{_HERE}/proc/{name}", None, MS_BIND)
    return [f"/proc/{name}" for name in shared]


def _can_be_written(entry: os.DirEntry[str]) -> bool:
    return not entry.is_symlink() and (entry.is_dir() or bool(entry.stat().st_mode & 0o222))


def _change_root(folder: str) -> None:
    """Make the folder the root, and detach everything else."""
    os.chdir(folder)
    # With both paths the same, the old root is mounted over the new one, and the next call removes it.
    _system_call("pivot_root", b".", b".")
    if _libc.umount2(b".", MNT_DETACH):
        raise _error("cannot leave the old root")
    os.chdir("/")


def _forbid_writing(writable: Mapping[str, bool]) -> None:
    """Remount everything that is not writable, mounts within it included, with the flags that a mount has.

    The kernel lets nobody remove those.
    """
    flag_of = {"ro": MS_RDONLY, "nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC}
    with open("/proc/self/mountinfo", "rb") as lines:
        mounted = [line.split()[4:6] for line in lines]
    for escaped, options in mounted:
        target = os.fsdecode(re.sub(rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), escaped))
        flags = MS_NOSUID | sum(flag_of.get(option, 0) for option in options.decode().split(","))
        if not writable[next(folder for folder in (target, *_parents(target)) if folder in writable)]:
            flags |= MS_RDONLY
        if not target.startswith("/dev/"):
            flags |= MS_NODEV
        _mount(None, target, None, MS_REMOUNT | MS_BIND | flags)


def _mount_tmpfs(target: str, *, mode: str) -> None:
    _mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode}")


_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    if _libc.mount(*texts, ctypes.c_ulong(flags), None if data is None else data.encode()):
        raise _error(f"cannot mount {kind or ('read-only' if source is None else 'a folder')}", target)


def _error(doing: str, *path: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{doing}: {os.strerror(number)}", *path)


# System calls by number: the C library has no function for them.
_NUMBERS = {"x86_64": {"pivot_root": 155, "capset": 126}, "aarch64": {"pivot_root": 41, "capset": 91}}
_MACHINE = os.uname().machine


def _system_call(name: str, *arguments: object) -> None:
    if _libc.syscall(_NUMBERS[_MACHINE][name], *arguments):
        raise _error(name)


_PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 22, 24, 38, 47
_CLEAR_ALL, _FILTER = 4, 2
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_SETFCAP = 31


def _give_up_privileges(*, nests: bool) -> None:
    """Drop all capabilities for good, so that the namespaces cannot be changed, and filter system calls.

    Without CAP_SETFCAP, the kernel lets no other namespace map this one's user.
    """
    kept = _CAP_SETFCAP if nests else None
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_CAP_AMBIENT, _CLEAR_ALL)
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in set(range(last + 1)) - {kept}:
        _prctl(_PR_CAPBSET_DROP, capability)
    mask = 0 if kept is None else 1 << kept
    sets = (ctypes.c_uint32 * 6)(mask, mask)  # effective and permitted
    _system_call("capset", (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), sets)
    if _MACHINE == "x86_64":
        _filter_system_calls([*_DENIED, *(() if nests else _MAKES_NAMESPACES)], nests=nests)


def _prctl(option: int, value: int, pointer: object = None) -> None:
    unused = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(value), unused if pointer is None else pointer, unused, unused):
        raise _error(f"prctl {option}")


# Numbers of x86-64. What reads other processes and the kernel, and user keys, which have no namespace.
_DENIED = (
    *(101, 103, 163, 167, 168, 169),  # ptrace, syslog, acct, swapon, swapoff, reboot
    *(172, 173, 175, 176, 179, 246),  # iopl, ioperm, init_module, delete_module, quotactl, kexec_load
    *(
        248,
        249,
        250,
        298,
        304,
        308,
    ),  # add_key, request_key, keyctl, perf_event_open, open_by_handle_at, setns
    *(
        310,
        311,
        312,
        313,
        320,
        321,
        323,
    ),  # process_vm_*, kcmp, finit_module, kexec_file_load, bpf, userfaultfd
    *(425, 426, 427, 438),  # io_uring_*, pidfd_getfd
)
_MAKES_NAMESPACES = (
    *(155, 161, 165, 166, 272),  # pivot_root, chroot, mount, umount2, unshare
    *(428, 429, 430, 431, 432, 433, 442),  # open_tree, move_mount, fs*, mount_setattr
)
_SOCKET, _CLONE, _CLONE3 = 41, 56, 435
_FAMILIES = (1, 2, 10, 16)
"""Unix, IPv4, IPv6, netlink: the families that a network namespace confines."""
_NEW_NAMESPACES = 0x7E020080
_AUDIT_ARCH_X86_64, _X32 = 0xC000003E, 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def _filter_system_calls(denied: Sequence[int], *, nests: bool) -> None:
    def fail(number: int) -> tuple[int, int, int, int]:
        return (_RETURN, 0, 0, _FAIL | number)

    program = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_EQUAL, 1, 0, _AUDIT_ARCH_X86_64),
        fail(errno.EPERM),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _X32),
        fail(errno.EPERM),
        # Its flags are behind a pointer. The C library uses `clone` if this call does not exist.
        (_EQUAL, 0, 1, _CLONE3),
        fail(errno.ENOSYS),
    ]
    for number in denied:
        program += [(_EQUAL, 0, 1, number), fail(errno.EPERM)]
    if not nests:
        program += [(_EQUAL, 0, 4, _CLONE), (_LOAD, 0, 0, _FIRST_ARGUMENT_AT)]
        program += [(_HAS_BIT, 0, 1, _NEW_NAMESPACES), fail(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    program += [(_EQUAL, 0, 2 + 2 * len(_FAMILIES), _SOCKET), (_LOAD, 0, 0, _FIRST_ARGUMENT_AT)]
    for family in _FAMILIES:
        program += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    program += [fail(errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    instructions = (_Instruction * len(program))(*(_Instruction(*line) for line in program))
    _prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(_Program(len(program), instructions)))
