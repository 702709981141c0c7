"""Change values in the text of a YAML file, and keep everything else: comments, order, and line endings.

The text is edited where its data differs from the wanted data. The result is then read again: it must have
exactly the wanted data and all comments of the text before, or the edit is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tritonstack.base.error_kinds import NotApplicableError
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.yaml import TextualDumper, field_text, load_yaml, nearest_line, parse_yaml

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


_INDENT = 2
_LINE_LENGTH = 110
_BY_HAND = "write its mapping with a key per line, without anchors and aliases, or change it by hand"


class UneditableFileError(InvalidFilesError):
    """The form of a file prevents an edit that changes nothing else."""


def message_of(error: UneditableFileError | None) -> str | None:
    """Return why a file cannot be edited."""
    return None if error is None else error.message


@dataclass(frozen=True)
class _Edit:
    """Replace a part of a text."""

    begin: int
    end: int
    text: str


class _RefusedError(Exception):
    """An edit is impossible: the line and the reason."""

    def __init__(self, line: int, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.line, self.reason, self.remedy = line, reason, remedy


def set_value(text: str, path: Sequence[str], value: object, *, file: Path) -> str:
    """Return the text of a file with a value at a path of keys; missing mappings are added."""
    return edit_mapping(text, path[:-1], {path[-1]: value}, file=file)


def edit_mapping(text: str, path: Sequence[str], changes: Mapping[str, object], *, file: Path) -> str:
    """Return the text of a file with some keys of the mapping at `path` changed; None removes a key.

    The mapping is added to its parent if it is missing. Raise UneditableFileError if the form of the file
    prevents exactly these changes.
    """
    before, lines = parse_yaml(text, file)
    line = nearest_line(lines, tuple(path)) or 1
    field = field_text(tuple(path))
    names = ", ".join(changes)
    try:
        after = with_changes(before, path, changes)
        if _same(after, before):
            return text
        return _edited(text, before, after)
    except _RefusedError as refused:
        raise _uneditable(file, refused.line, field, f"{names}: {refused.reason}", refused.remedy) from None
    except (yaml.YAMLError, InvalidFilesError):
        reason = f"{names} cannot be set without another change of the file"
        raise _uneditable(file, line, field, reason, _BY_HAND) from None


def with_changes(data: Any, path: Sequence[str], changes: Mapping[str, object]) -> Any:
    """Return data with some keys of the mapping at `path` changed; None removes a key."""
    if not isinstance(data, dict | None):
        raise yaml.YAMLError("not a mapping")
    mapping = data or {}
    if not path:
        unchanged = {name: value for name, value in mapping.items() if name not in changes}
        return unchanged | {name: value for name, value in changes.items() if value is not None}
    part = with_changes(mapping.get(path[0]), path[1:], changes)
    return mapping | {path[0]: part} if part or mapping.get(path[0]) is not None else mapping


def _uneditable(file: Path, line: int, field: str, reason: str, remedy: str) -> UneditableFileError:
    return UneditableFileError(
        [FileViolation(file, line, field, reason, remedy, code=NotApplicableError.code)]
    )


def _edited(text: str, before: Any, after: Any) -> str:
    composed = compose_text(text)
    editor = _Editor(composed)
    editor.reconcile(_mapping(composed.root), before, after)
    edited = _applied(text, editor.edits, composed.newline)
    comments = sorted(comment.text for comment in composed.comments)
    if not _same(load_yaml(edited), after) or comments != sorted(
        comment.text for comment in compose_text(edited).comments
    ):
        raise yaml.YAMLError("the edit would change more")
    return edited


def _mapping(node: yaml.Node | None) -> yaml.MappingNode:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.YAMLError("not a mapping")
    return node


def _same(first: Any, other: Any) -> bool:
    """Compare data with its types: 1, 1.0, and true differ."""
    if type(first) is not type(other):
        return False
    if isinstance(first, dict):
        return first.keys() == other.keys() and all(_same(value, other[key]) for key, value in first.items())
    if isinstance(first, list):
        return len(first) == len(other) and all(map(_same, first, other))
    return bool(first == other) or (first != first and other != other)  # noqa: PLR0124 - not a number


class _Editor:
    """Collects the edits between two states of the data of a text."""

    def __init__(self, composed: ComposedText) -> None:
        self.composed, self.text = composed, composed.text
        self.edits: list[_Edit] = []

    def reconcile(self, node: yaml.MappingNode, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Edit a mapping that has at least one key after the edit."""
        pairs = {key.value: (key, value) for key, value in node.value}
        for name, (key, old) in pairs.items():
            if name in before and name in after and not _same(before[name], after[name]):
                self._change(key, old, before[name], after[name], in_block=not node.flow_style)
        removed = [name for name in pairs if name in before and name not in after]
        added = {
            name: value
            for name, value in after.items()
            if name not in before or (name not in pairs and not _same(before[name], value))
        }
        if node.flow_style or not node.value:
            self._edit_braces(node, removed, added)
        else:
            for name in removed:
                self._remove_lines(*pairs[name])
            self._add_lines(node, added)

    def _change(self, key: yaml.Node, old: yaml.Node, before: Any, after: Any, *, in_block: bool) -> None:
        """Change a value, and within a mapping or a list only the parts that differ."""
        if isinstance(old, yaml.MappingNode) and isinstance(after, dict) and after and before:
            self.reconcile(old, before, after)
        elif isinstance(old, yaml.SequenceNode) and isinstance(after, list) and len(after) == len(before):
            for item, was, value in zip(old.value, before, after, strict=True):
                if not _same(was, value):
                    self._change(item, item, was, value, in_block=False)
        else:
            self._replace(key, old, after, in_block=in_block)

    def _replace(self, key: yaml.Node, old: yaml.Node, value: Any, *, in_block: bool) -> None:
        end = self.composed.content_end(old)
        is_block = isinstance(old, yaml.CollectionNode) and not old.flow_style
        is_empty = end == old.start_mark.index
        if key is not old and in_block and (is_block or is_empty):
            self._replace_lines(key, end, value)
        elif is_empty:
            colon = "" if key is old or self.text[end - 1 : end] == ":" else ":"
            self.edits.append(_Edit(end, end, f"{colon} {_flow(value)}"))
        else:
            self._keep_comments(old.start_mark.index, end, key if in_block else None)
            self.edits.append(_Edit(old.start_mark.index, end, _flow(value)))

    def _replace_lines(self, key: yaml.Node, end: int, value: Any) -> None:
        """Replace a value that begins after the line of its key; what follows the colon stays."""
        colon = self.text.index(":", key.end_mark.index) + 1
        line_end = self.composed.line_break(colon)
        end = self.composed.line_break(max(end, line_end))
        self._keep_comments(line_end, end, key)
        lines = _block(str(key.value), value, key.start_mark.column)
        if lines.count("\n") > 1:
            self.edits.append(_Edit(line_end, end, lines[lines.index("\n") :].rstrip("\n")))
        else:
            self.edits.append(_Edit(colon, colon, f" {_flow(value)}"))
            self.edits.append(_Edit(line_end, end, ""))

    def _remove_lines(self, key: yaml.Node, old: yaml.Node) -> None:
        begin = self.composed.line_start(key.start_mark.index)
        end = max(self.composed.content_end(key), self.composed.content_end(old))
        end = self.composed.line_end(end)
        self._keep_comments(begin, end, key)
        self.edits.append(_Edit(begin, end, ""))

    def _add_lines(self, node: yaml.MappingNode, added: Mapping[str, Any]) -> None:
        if not added:
            return
        column, end = node.value[0][0].start_mark.column, self.composed.block_end(node)
        missing_break = "" if self.text[:end].endswith("\n") else "\n"
        lines = "".join(_block(name, value, column) for name, value in added.items())
        self.edits.append(_Edit(end, end, missing_break + lines))

    def _edit_braces(self, node: yaml.MappingNode, removed: Sequence[str], added: Mapping[str, Any]) -> None:
        """Remove pairs with their commas, and add pairs after the last one."""
        pairs = node.value
        ends = [self._pair_end(key, value) for key, value in pairs]
        remaining = [index for index, (key, _) in enumerate(pairs) if key.value not in removed]
        members = ", ".join(f"{_flow(name)}: {_flow(value)}" for name, value in added.items())
        if not remaining:
            begin = pairs[0][0].start_mark.index if pairs else node.start_mark.index + 1
            self._cut(begin, ends[-1] if pairs else begin, members)
            return
        for index, (key, _) in enumerate(pairs):
            if index in remaining:
                continue
            if index < remaining[-1]:
                self._cut(key.start_mark.index, pairs[index + 1][0].start_mark.index)
            else:
                self._cut(ends[index - 1], ends[index])
        if members:
            self.edits.append(_Edit(ends[remaining[-1]], ends[remaining[-1]], f", {members}"))

    def _pair_end(self, key: yaml.Node, value: yaml.Node) -> int:
        """Return the index after a pair in braces; an empty value has the position of the next token."""
        end = int(value.end_mark.index)
        if end > value.start_mark.index or self.text[end - 1 : end] == ":":
            return end
        return int(key.end_mark.index)

    def _cut(self, begin: int, end: int, text: str = "") -> None:
        self._keep_comments(begin, end, None)
        self.edits.append(_Edit(begin, end, text))

    def _keep_comments(self, begin: int, end: int, key: yaml.Node | None) -> None:
        """Move the comments of a part that goes to lines of their own above its key."""
        lost = self.composed.comments_in(begin, end)
        if not lost:
            return
        start = None if key is None else self.composed.line_start(key.start_mark.index)
        if key is None or start is None or self.text[start : key.start_mark.index].strip():
            raise _RefusedError(
                lost[0].line,
                f"the edit would remove the comment {lost[0].text!r}",
                "move the comment to a line above the value, or change the value by hand",
            )
        indent = " " * key.start_mark.column
        self.edits.append(_Edit(start, start, "".join(f"{indent}{comment.text}\n" for comment in lost)))


def _block(name: str, value: object, column: int) -> str:
    """Return a key with its value on lines of its own."""
    indent = " " * column
    line = f"{indent}{_flow(name)}: {_flow(value)}\n"
    if not isinstance(value, dict) or not value or (len(line) <= _LINE_LENGTH and not _nested(value)):
        return line
    return f"{indent}{_flow(name)}:\n" + "".join(
        _block(str(key), item, column + _INDENT) for key, item in value.items()
    )


def _nested(value: Mapping[str, object]) -> bool:
    return any(isinstance(item, dict) for item in value.values())


def _flow(value: object) -> str:
    """Return a value on one line, as it can be written within braces and outside."""
    text: str = yaml.dump(
        [value],
        Dumper=TextualDumper,
        default_flow_style=True,
        width=10**6,
        allow_unicode=True,
        sort_keys=False,
    )
    return text.strip()[1:-1]


def _applied(text: str, edits: Iterable[_Edit], newline: str) -> str:
    """Apply edits from the last one to the first; insertions at one place stay in the order of the edits."""
    following = len(text)
    numbered = sorted(enumerate(edits), key=lambda pair: (pair[1].begin, pair[1].end, pair[0]), reverse=True)
    for _, edit in numbered:
        if edit.end > following:
            raise yaml.YAMLError("edits overlap")
        replacement = edit.text.replace("\n", newline)
        text = text[: edit.begin] + replacement + text[edit.end :]
        following = edit.begin
    return text
