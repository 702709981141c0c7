"""Check disk space and memory before a step, and explain failures caused by a lack of them."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from model_build.errors import ResourceError

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NEARLY_FULL_BYTES = 4 << 20
"""With less free space than this, any tool failure is attributed to the full disk."""
NO_MEMORY = ("can't allocate memory", "std::bad_alloc", "Cannot allocate memory", "Failed to allocate memory")
CGROUP = Path("/sys/fs/cgroup")
MEMORY_INFO = Path("/proc/meminfo")
FREE_SPACE = "free disk space, or set TRITONSTACK_HOME to a folder on a larger disk"
LARGER_MACHINE = "build on a machine with more memory: run `tritonstack build` without --local"


PROCESSOR_INFO = Path("/proc/cpuinfo")
PROCESSOR_FEATURES = (
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_int8",
    "amx_bf16",
)
"""Features that decide the speed of a graph, and the arithmetic of 8 and 16 bits."""


def processor_features() -> tuple[str, ...]:
    """Return which of PROCESSOR_FEATURES this machine has."""
    lines = PROCESSOR_INFO.read_text().splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return tuple(feature for feature in PROCESSOR_FEATURES if feature in flags)


def require_space(folder: Path, needed_bytes: int, *, purpose: str) -> None:
    """Raise ResourceError if the disk of `folder` has too little space."""
    free = free_space(folder)
    if free < needed_bytes:
        raise ResourceError(
            f"{purpose} needs {_size(needed_bytes)} in {folder}; free: {_size(free)}",
            remedy=FREE_SPACE,
        )


def free_space(folder: Path) -> int:
    """Return the free bytes on a folder's disk; the folder may not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def require_memory(needed_bytes: int, *, purpose: str) -> None:
    """Raise ResourceError if this machine or container has too little memory."""
    available = available_memory()
    if available < needed_bytes:
        raise ResourceError(
            f"{purpose} needs about {_size(needed_bytes)} of memory; available: {_size(available)}",
            remedy=LARGER_MACHINE,
        )


def available_memory() -> int:
    """Return the available memory, within any container limit."""
    info = dict(line.split(":", 1) for line in MEMORY_INFO.read_text().splitlines())
    return min([int(info["MemAvailable"].split()[0]) * 1024, *_left_in_containers()])


def _left_in_containers() -> Iterator[int]:
    """Yield the memory left under cgroup limits, v1 and v2."""
    for folder, names, cached in (
        (CGROUP, ("memory.max", "memory.current"), "inactive_file"),
        (CGROUP / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file"),
    ):
        limit, used, statistics = (folder / name for name in (*names, "memory.stat"))
        if limit.is_file() and (text := limit.read_text().strip()).isdecimal():
            # The kernel reclaims cached files before it kills a process.
            lines = statistics.read_text().splitlines() if statistics.is_file() else []
            droppable = dict(line.split() for line in lines).get(cached, "0")
            yield max(0, int(text) - int(used.read_text()) + int(droppable))


@contextmanager
def shortages_explained(folder: Path) -> Iterator[None]:
    """Turn failures from a full disk or exhausted memory into ResourceError; pass others through."""
    try:
        yield
    except ResourceError:
        raise
    except Exception as error:
        if (shortage := _shortage(error, folder)) is not None:
            raise shortage from error
        raise


def _shortage(error: Exception, folder: Path) -> ResourceError | None:
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            # For a failed copy, the second name is the file being written.
            place = cause.filename2 or cause.filename or folder
            return ResourceError(
                f"the disk is full: {place}: {cause.strerror} ({_size(free_space(folder))} left in {folder})",
                remedy=FREE_SPACE,
            )
        if isinstance(cause, MemoryError) or any(sign in str(cause) for sign in NO_MEMORY):
            return ResourceError(f"out of memory: {cause}", remedy=LARGER_MACHINE)
    if (free := free_space(folder)) < NEARLY_FULL_BYTES:
        return ResourceError(f"the disk of {folder} is full ({_size(free)} left): {error}", remedy=FREE_SPACE)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
