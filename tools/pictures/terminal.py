"""Run a command in a pseudo terminal, and interpret what it prints as a terminal does.

Interprets what the command line uses: colors, line feeds, and the cursor movements of live lines.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.style import Style
from rich.text import Text

_CHUNK = 65_536
_TOKEN = re.compile(
    r"\x1b\[(?P<arguments>[0-9;?]*)(?P<command>[A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|(?P<text>[^\x1b])",
    re.S,
)


@dataclass(frozen=True)
class Recording:
    """A command, and what it printed."""

    command: str
    text: str
    code: int


def record(
    command: str, *, folder: Path, variables: Mapping[str, str], columns: int, rows: int = 50
) -> Recording:
    """Run a shell command in a terminal of that size."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env={**variables, "TERM": variables.get("TERM", "xterm-256color")},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    try:
        text = "".join(_printed(leader))
        code = process.wait()
    finally:
        os.close(leader)
        with contextlib.suppress(ProcessLookupError):
            if process.poll() is None:
                process.kill()
    return Recording(command, text, code)


def _printed(leader: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        try:
            read = os.read(leader, _CHUNK)
        except OSError as error:
            if error.errno != errno.EIO:  # the other end is closed
                raise
            read = b""
        yield decoder.decode(read, final=not read)
        if not read:
            return


@dataclass
class Screen:
    """The lines of a terminal, with those that have scrolled away."""

    columns: int
    _lines: list[list[tuple[str, Style]]] = field(default_factory=lambda: [[]])
    _row: int = 0
    _column: int = 0
    _colors: AnsiDecoder = field(default_factory=AnsiDecoder)

    def lines(self) -> list[Text]:
        """Return all lines, without blank ones at the end."""
        lines = [Text.assemble(*line) for line in self._lines]
        while lines and not lines[-1].plain.strip():
            lines.pop()
        return lines

    def write(self, text: str) -> None:
        """Interpret output."""
        for token in _TOKEN.finditer(text):
            if token["text"] is not None:
                self._put(token["text"])
            elif token["command"] == "m":
                self._colors.decode_line(token[0])
            elif token["command"] is not None and not token["arguments"].startswith("?"):
                self._move(
                    token["command"], [int(argument or 0) for argument in token["arguments"].split(";")]
                )

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._go(self._row + 1)
        elif character == "\b":
            self._column = max(self._column - 1, 0)
        elif character == "\t":
            for _ in range(8 - self._column % 8):
                self._put(" ")
        elif character.isprintable():
            if self._column >= self.columns:
                self._column = 0
                self._go(self._row + 1)
            line = self._lines[self._row]
            line.extend([(" ", Style.null())] * (self._column + 1 - len(line)))
            line[self._column] = (character, self._colors.style)
            self._column += 1

    def _move(self, command: str, arguments: Sequence[int]) -> None:
        count = arguments[0] or 1
        if command == "A":
            self._row = max(self._row - count, 0)
        elif command == "B":
            self._go(self._row + count)
        elif command == "C":
            self._column += count
        elif command == "D":
            self._column = max(self._column - count, 0)
        elif command == "G":
            self._column = count - 1
        elif command == "K":
            self._erase_line(arguments[0])
        elif command == "J":
            self._erase_line(arguments[0])
            del self._lines[self._row + 1 :]
        else:
            raise ValueError(f"the terminal command {command!r} is not interpreted")

    def _erase_line(self, part: int) -> None:
        line = self._lines[self._row]
        if part == 0:
            del line[self._column :]
        elif part == 1:
            line[: self._column + 1] = [(" ", Style.null())] * (self._column + 1)
        else:
            line.clear()

    def _go(self, row: int) -> None:
        self._row = row
        while len(self._lines) <= row:
            self._lines.append([])
