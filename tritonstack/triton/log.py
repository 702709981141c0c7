"""Read a server's log: its end, and the lines that explain a failure."""

from __future__ import annotations

import re
from pathlib import Path

# Triton's error lines begin with E and the date; its last line after a failed start begins with "error:".
_ERROR_LINE = re.compile(r"E\d{4} |error: |ERROR: |\w*Error: ")
# | model | version | UNAVAILABLE: reason |, possibly split into several rows by line breaks in the reason
_REASON_ROW = re.compile(r"\|\s*\S+\s*\|\s*\d+\s*\|\s*UNAVAILABLE: ")
# Logged by every server on a machine without a GPU.
_HARMLESS = ("CudaDriverHelper has not been initialized", "CUDA driver version is insufficient")
_TAIL_BYTES = 1 << 18
_LONGEST_LINE = 600


def tail(log: Path, lines: int) -> str:
    """Return the last lines of the log; empty if there is no log yet."""
    return "\n".join(_last_lines(log)[-lines:])


def reasons(log: Path, *, limit: int = 12) -> str:
    """Return the lines that explain a failure, without duplicates; else the end of the log."""
    return errors(log, limit=limit) or tail(log, limit)


def errors(log: Path, *, limit: int) -> str:
    """Return the last lines that report errors, shortened, without duplicates; empty if there is none."""
    lines: dict[str, None] = {}
    for line in _last_lines(log):
        match = _ERROR_LINE.match(line) or _REASON_ROW.match(line)
        if match and not any(text in line for text in _HARMLESS):
            shown = " ".join(line.split())
            lines[shown if len(shown) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]} ..."] = None
    return "\n".join(list(lines)[-limit:])


def _last_lines(log: Path) -> list[str]:
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()
