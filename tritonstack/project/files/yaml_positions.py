"""Where the parts of a YAML text are: nodes, the ends of blocks, and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

_COMMENT = re.compile(r"#[^\r\n\x85\u2028\u2029]*")


@dataclass(frozen=True)
class Comment:
    """A comment of a YAML text."""

    begin: int
    line: int
    """Counted from 1."""
    text: str
    """From the number sign to the end of the line, without spaces at the end."""


@dataclass(frozen=True)
class ComposedText:
    """A YAML text with its nodes and comments."""

    text: str
    root: yaml.Node | None
    comments: tuple[Comment, ...]

    @property
    def newline(self) -> str:
        """The line ending of the text, by its first line."""
        return "\r\n" if re.match(r"[^\n]*\r\n", self.text) else "\n"

    def comments_in(self, begin: int, end: int) -> list[Comment]:
        """Return the comments of a part of the text."""
        return [comment for comment in self.comments if begin <= comment.begin < end]

    def line_start(self, index: int) -> int:
        """Return the index of the first character of a line."""
        return self.text.rfind("\n", 0, index) + 1

    def line_end(self, index: int) -> int:
        """Return the index after the end of a line and its line ending."""
        end = self.text.find("\n", index)
        return len(self.text) if end < 0 else end + 1

    def line_break(self, index: int) -> int:
        """Return the index after the last character of a line, before its line ending."""
        end = self.line_end(index)
        return index + len(self.text[index:end].rstrip("\r\n"))

    def content_end(self, node: yaml.Node) -> int:
        """Return the index after a node, without the comments and blank lines that follow it."""
        if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
            last = node.value[-1]
            return max(map(self.content_end, last if isinstance(last, tuple) else (last,)))
        begin, end = int(node.start_mark.index), int(node.end_mark.index)
        if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
            text = self.text[begin:end]
            keeps_blank_lines = "+" in text.partition("#")[0].partition("\n")[0]
            return end - 1 if keeps_blank_lines else begin + len(text.rstrip())
        return end

    def block_end(self, node: yaml.MappingNode) -> int:
        """Return the index of the line after a block mapping and the comments that are indented further."""
        end = self.line_end(self.content_end(node))
        column = node.value[0][0].start_mark.column
        while comment := re.compile(rf" {{{column + 1},}}#[^\n]*(\n|\Z)").match(self.text, end):
            end = comment.end()
        return end


def compose_text(text: str) -> ComposedText:
    """Return a YAML text with its nodes; the text must be within the limits of `load_yaml`."""
    # The positions of libyaml's nodes are not exact enough for edits.
    loader = _GapLoader(text)
    try:
        root = loader.get_single_node()
    finally:
        loader.dispose()
    return ComposedText(text, root, tuple(_comments(text, loader.gaps)))


class _GapLoader(yaml.SafeLoader):
    """Records what is between tokens: spaces, line breaks, and comments."""

    def __init__(self, text: str) -> None:
        self.gaps: list[tuple[int, int]] = []
        super().__init__(text)

    def scan_to_next_token(self) -> Any:
        """Skip what is before a token."""
        begin = self.index
        super().scan_to_next_token()
        self.gaps.append((begin, self.index))

    def scan_block_scalar_ignored_line(self, start_mark: Any) -> Any:
        """Skip what follows the header of a text in a block."""
        begin = self.index
        super().scan_block_scalar_ignored_line(start_mark)
        self.gaps.append((begin, self.index))


def _comments(text: str, gaps: list[tuple[int, int]]) -> Iterator[Comment]:
    for begin, end in gaps:
        for match in _COMMENT.finditer(text, begin, end):
            yield Comment(match.start(), text.count("\n", 0, match.start()) + 1, match[0].rstrip())
