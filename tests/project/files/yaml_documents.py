"""Random YAML documents that know which of their lines belong to which key."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

KeyPath = tuple[str, ...]
_WORDS = (
    "plain",
    "two words",
    "a#b",
    "x: y",
    "it's",
    'say "hi"',
    "größer",
    "07:00",
    "on",
    "",
    "1e3",
    "*star",
)
_NUMBERS = (("16", 16), ("0x10", 16), ("1_000", 1000), ("0.50", 0.5), ("true", True), ("010", 8))


class Line(NamedTuple):
    """A line, and the key to which it belongs."""

    text: str
    path: KeyPath
    """Of the key; of a comment, its mapping."""
    kind: str
    """`key`, `value`, `comment`, or `braces`: an edit below the path of braces changes the line."""


@dataclass
class Document:
    """A random document."""

    generator: random.Random
    with_anchors: bool = False
    lines: list[Line] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    comments: int = 0
    comments_in_braces: bool = False
    anchors: int = 0

    def __post_init__(self) -> None:
        self.data = self._block((), 0)
        self.newline = self.generator.choice(("\n", "\r\n"))
        self.text = self.newline.join(line.text for line in self.lines)
        ends = (1, 2) if "# no comment" in self.lines[-1].text else (0, 1, 2)
        self.text += self.generator.choice(ends) * self.newline
        if self.newline not in self.text:  # one line without an end
            self.newline = "\n"

    def kept_lines(self, edited: KeyPath) -> list[str]:
        """Return the lines that an edit of a key leaves as they are."""
        return [line.text for line in self.lines if not _is_touched(line, edited)]

    def mappings(self) -> list[KeyPath]:
        """Return the paths of all mappings."""
        return _mappings(self.data, ())

    def _comment(self) -> str:
        self.comments += 1
        return f"# comment {self.comments}: {self.generator.choice(_WORDS)}"

    def _trailing(self) -> str:
        return f"   {self._comment()}" if self.generator.random() < 0.25 else ""

    def _between(self, path: KeyPath, column: int) -> None:
        while self.generator.random() < 0.25:
            text = "" if self.generator.random() < 0.5 else f"{' ' * column}{self._comment()}"
            self.lines.append(Line(text, path, "comment"))

    def _block(self, path: KeyPath, column: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        step = self.generator.choice((2, 4))
        for name in self.generator.sample("abcdefgh", self.generator.randint(1, 4)):
            self._between(path, column)
            data[name] = self._pair((*path, name), column, step)
        self._between(path, column)
        return data

    def _pair(self, path: KeyPath, column: int, step: int) -> Any:
        key = f"{' ' * column}{path[-1]}:"
        kind = self.generator.choice(("scalar", "scalar", "braces", "list", "lines", "empty", "block"))
        if kind == "block" and len(path) < 4:
            self.lines.append(Line(key + self._trailing(), path, "key"))
            return self._block(path, column + step)
        if kind == "list":
            return self._list(key, path, column)
        if kind == "lines":
            style = self.generator.choice(("|", ">", "|-"))
            self.lines.append(Line(f"{key} {style}{self._trailing()}", path, "value"))
            self.lines += [Line(f"{' ' * (column + 2)}# no comment {word}", path, "value") for word in "xy"]
            return {"|": "{}\n{}\n", "|-": "{}\n{}", ">": "{} {}\n"}[style].format(
                "# no comment x", "# no comment y"
            )
        if kind == "empty":
            self.lines.append(Line(key + self._trailing(), path, "braces"))
            return None
        if kind == "braces":
            return self._braces(key, path, column)
        text, value = self._scalar()
        if self.with_anchors and text != "*n1" and self.generator.random() < 0.3:
            self.anchors += 1
            text = f"&n{self.anchors} {text}"
        self.lines.append(Line(f"{key} {text}{self._trailing()}", path, "value"))
        return value

    def _list(self, key: str, path: KeyPath, column: int) -> list[Any]:
        self.lines.append(Line(key + self._trailing(), path, "value"))
        items = [self._scalar() for _ in range(self.generator.randint(1, 3))]
        indent = " " * (column + self.generator.choice((0, 2)))
        for text, _ in items:
            self.lines.append(Line(f"{indent}- {text}{self._trailing()}", path, "value"))
        return [value for _, value in items]

    def _braces(self, key: str, path: KeyPath, column: int) -> dict[str, Any]:
        pairs = {name: self._scalar() for name in self.generator.sample("abcd", self.generator.randint(0, 3))}
        texts = [f"{name}: {text}" for name, (text, _) in pairs.items()]
        if texts and self.generator.random() < 0.4:
            lines = [f"{key} {{", *(f"{' ' * (column + 3)}{text}," for text in texts)]
            if self.generator.random() < 0.3:
                self.comments_in_braces = True
                lines[-1] += f"  {self._comment()}"
            lines.append(f"{' ' * (column + 1)}}}")
        else:
            space = self.generator.choice(("", " "))
            lines = [f"{key} {{{space}{', '.join(texts)}{space}}}{self._trailing()}"]
        self.lines += [Line(text, path, "braces") for text in lines]
        return {name: value for name, (_, value) in pairs.items()}

    def _scalar(self) -> tuple[str, Any]:
        if self.with_anchors and self.anchors and self.generator.random() < 0.3:
            return "*n1", self._first_anchored()
        if self.generator.random() < 0.5:
            return self.generator.choice(_NUMBERS)
        word = self.generator.choice(_WORDS)
        quoted = f"'{word.replace(chr(39), 2 * chr(39))}'"
        return self.generator.choice((json.dumps(word, ensure_ascii=False), quoted)), word

    def _first_anchored(self) -> Any:
        (text,) = [line.text for line in self.lines if "&n1 " in line.text]
        written = text.partition("&n1 ")[2].partition("   #")[0]
        known = dict(_NUMBERS)
        if written in known:
            return known[written]
        return json.loads(written) if written[0] == '"' else written[1:-1].replace("''", "'")


def _is_touched(line: Line, edited: KeyPath) -> bool:
    if line.path[: len(edited)] == edited:
        return True
    return line.kind == "braces" and edited[: len(line.path)] == line.path


def _mappings(data: Any, path: KeyPath) -> list[KeyPath]:
    if not isinstance(data, dict):
        return []
    return [path, *(found for key, value in data.items() for found in _mappings(value, (*path, key)))]
