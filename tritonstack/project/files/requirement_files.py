"""Parse requirements files of Python models, without the package index."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PINNED = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*===?\s*(?P<version>[^\s,;*<>=!~]+)\s*"
    r"(;[^#]*?)?(\s--hash=\S+)*"
)
REMEDY = "write <name>==<version>, optionally followed by --hash=sha256:… to pin the file"


def requirement_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield requirements with line numbers; a trailing backslash continues a line."""
    begin, parts = 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        begin = begin if parts else number
        continued = line.rstrip().endswith("\\")
        parts.append(line.rstrip().removesuffix("\\"))
        if continued:
            continue
        joined = " ".join(parts).partition(" #")[0].strip()
        parts = []
        if joined and not joined.startswith("#"):
            yield begin, joined


def pinned_version(line: str) -> tuple[str, str] | None:
    """Return a requirement's name and exact version; None if it is not pinned."""
    match = _PINNED.fullmatch(line)
    return (match["name"].lower(), match["version"]) if match else None
