"""The pages of the documentation, and their blocks of commands."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base.paths import find_project

ROOT = find_project(Path(__file__).parent).root
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").glob("*.md"),
        *(ROOT / "examples").glob("*/README.md"),
    ]
)
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
SHELLS = ("bash", "console", "sh", "shell")
MARK = re.compile(r"# needs (AWS|a GPU)\b")


def page_id(page: Path) -> str:
    """Return the path of a page in the repository."""
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """One block of commands on a page."""

    page: str
    line: int
    text: str

    @property
    def marked(self) -> bool:
        """Return whether the first line says what the block needs."""
        return MARK.match(self.text) is not None

    @property
    def name(self) -> str:
        """Return where it is."""
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page that a reader runs in a shell."""
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        if fence[2] in SHELLS:
            line = text[: fence.start()].count("\n") + 1
            yield Block(page_id(page), line, textwrap.dedent(fence[3]))
