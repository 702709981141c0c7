"""Reads a server's log: its end, and the lines in it that say why it failed."""

from __future__ import annotations

import re
from pathlib import Path

# Triton's error lines begin with E and the date; its last word on a failed start begins with "error:".
_ERROR_LINE = re.compile(r"E\d{4} |error: |ERROR: |\w*Error: ")
# | model | version | UNAVAILABLE: reason |, possibly cut into several rows by the reason's own line breaks
_REASON_ROW = re.compile(r"\|\s*\S+\s*\|\s*\d+\s*\|\s*UNAVAILABLE: ")
# Said by every server on a machine without a GPU.
_HARMLESS = ("CudaDriverHelper has not been initialized", "CUDA driver version is insufficient")
_TAIL_BYTES = 1 << 18


def tail(log: Path, lines: int) -> str:
    """The last lines of the log; empty if there is none yet."""
    return "\n".join(_last_lines(log)[-lines:])


def reasons(log: Path, *, limit: int = 12) -> str:
    """The lines that say what went wrong, each once; the end of the log if none does."""
    found: dict[str, None] = {}
    for line in _last_lines(log):
        said = _ERROR_LINE.match(line) or _REASON_ROW.match(line)
        if said and not any(text in line for text in _HARMLESS):
            found[" ".join(line.split())] = None
    return "\n".join(list(found)[-limit:]) or tail(log, limit)


def _last_lines(log: Path) -> list[str]:
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()
