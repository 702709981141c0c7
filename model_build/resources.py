"""Whether this machine has the disk and the memory that a step needs: told before, or after if it had not."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from model_build.errors import ResourceError

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NEARLY_FULL_BYTES = 4 << 20
"""With less than this free, whatever a tool failed with, the disk is the reason."""
NO_MEMORY = ("can't allocate memory", "std::bad_alloc", "Cannot allocate memory", "Failed to allocate memory")
CGROUP = Path("/sys/fs/cgroup")
MEMORY_INFO = Path("/proc/meminfo")
FREE_SPACE = "free some, or let TRITONSTACK_HOME name a folder on a larger disk"
LARGER_MACHINE = "build it on a machine with more memory: without --local, `tritonstack build` does"


def require_space(folder: Path, needed_bytes: int, *, purpose: str) -> None:
    """Raise ResourceError where the disk of `folder` has not that much left."""
    free = free_space(folder)
    if free < needed_bytes:
        raise ResourceError(
            f"{purpose} takes {_size(needed_bytes)} in {folder}, and its disk has {_size(free)} left",
            remedy=FREE_SPACE,
        )


def free_space(folder: Path) -> int:
    """The bytes that are left on the disk of a folder, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def require_memory(needed_bytes: int, *, purpose: str) -> None:
    """Raise ResourceError where this machine, or the container this runs in, has not that much left."""
    available = available_memory()
    if available < needed_bytes:
        raise ResourceError(
            f"{purpose} takes about {_size(needed_bytes)} of memory, and {_size(available)} is available",
            remedy=LARGER_MACHINE,
        )


def available_memory() -> int:
    """What programs can still take, within the limit of the container if there is one."""
    info = dict(line.split(":", 1) for line in MEMORY_INFO.read_text().splitlines())
    return min([int(info["MemAvailable"].split()[0]) * 1024, *_left_in_containers()])


def _left_in_containers() -> Iterator[int]:
    """What is left of the limits of control groups, of either version."""
    for folder, names, cached in (
        (CGROUP, ("memory.max", "memory.current"), "inactive_file"),
        (CGROUP / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file"),
    ):
        limit, used, statistics = (folder / name for name in (*names, "memory.stat"))
        if limit.is_file() and (text := limit.read_text().strip()).isdecimal():
            # Files that the kernel keeps in memory go before anybody is refused.
            lines = statistics.read_text().splitlines() if statistics.is_file() else []
            droppable = dict(line.split() for line in lines).get(cached, "0")
            yield max(0, int(text) - int(used.read_text()) + int(droppable))


@contextmanager
def shortages_explained(folder: Path) -> Iterator[None]:
    """Turn what a full disk or exhausted memory made of a step into a ResourceError; others pass through."""
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
            # Of a copy that failed the second name is the one that was written.
            place = cause.filename2 or cause.filename or folder
            return ResourceError(
                f"the disk is full: {place}: {cause.strerror} ({_size(free_space(folder))} left in {folder})",
                remedy=FREE_SPACE,
            )
        if isinstance(cause, MemoryError) or any(sign in str(cause) for sign in NO_MEMORY):
            return ResourceError(f"the memory is exhausted: {cause}", remedy=LARGER_MACHINE)
    if (free := free_space(folder)) < NEARLY_FULL_BYTES:
        return ResourceError(
            f"the disk of {folder} is full, with {_size(free)} left: {error}", remedy=FREE_SPACE
        )
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
