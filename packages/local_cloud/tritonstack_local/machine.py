"""What the machine that this cloud runs on has left."""

from __future__ import annotations

from pathlib import Path

_MEMORY = Path("/proc/meminfo")
_OWN_GROUP = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """The bytes that new work can have: of the machine, and of the container that this cloud may run in."""
    return min(_free_of_machine(), _free_of_group(_OWN_GROUP))


def _free_of_machine() -> int:
    return _numbers(_MEMORY)["MemAvailable:"] * 1024


def _free_of_group(group: Path) -> int:
    """A control group counts the files that it has read too, which it can do without."""
    try:
        limit = (group / "memory.max").read_text().strip()
        held = int((group / "memory.current").read_text()) - _numbers(group / "memory.stat")["inactive_file"]
    except FileNotFoundError:  # the machine itself, or one with groups of the first version
        return _free_of_machine()
    return _free_of_machine() if limit == "max" else max(0, int(limit) - held)


def _numbers(file: Path) -> dict[str, int]:
    lines = (line.split() for line in file.read_text().splitlines())
    return {name: int(value) for name, value, *_ in lines}
