"""Edits of YAML texts keep comments, order, and everything else."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tritonstack.base.paths import find_project
from tritonstack.base.yaml import load_yaml
from tritonstack.files.scaffold import yaml_edits
from tritonstack.files.scaffold.yaml_edits import UneditableFileError

NAME = Path("models/mood/model.yaml")
TEXT = """\
# who
name: mood  # a name
recipe: {kind: text-classification, max_length: 128} # short

batching:
  max_batch: 32   # rows
  # why
  preferred_sizes:
    - 16
    - 32

description: >-
  Two lines
  of text.

# inputs
test_inputs: [a, b]
"""


def set_value(text: str, path: tuple[str, ...], value: object) -> str:
    return yaml_edits.set_value(text, path, value, file=NAME)


def edit_mapping(text: str, path: tuple[str, ...], changes: dict[str, Any]) -> str:
    return yaml_edits.edit_mapping(text, path, changes, file=NAME)


def changed_lines(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


@pytest.mark.parametrize(
    ("path", "value", "lines"),
    [
        (("batching", "max_batch"), 64, ["-  max_batch: 32   # rows", "+  max_batch: 64   # rows"]),
        (("batching", "queue_delay_us"), 1000, ["+  queue_delay_us: 1000"]),
        (
            ("batching", "preferred_sizes"),
            [8],
            ["-  preferred_sizes:", "-    - 16", "-    - 32", "+  preferred_sizes: [8]"],
        ),
        (
            ("recipe", "batch_tokens"),
            256,
            [
                "-recipe: {kind: text-classification, max_length: 128} # short",
                "+recipe: {kind: text-classification, max_length: 128, batch_tokens: 256} # short",
            ],
        ),
        (("triton", "instances"), [{"count": 2}], ["+triton: {instances: [{count: 2}]}"]),
        (("precision",), "int8", ["+precision: int8"]),
        (("name",), "rank", ["-name: mood  # a name", "+name: rank  # a name"]),
        (("name",), "mood", []),
    ],
)
def test_one_value_changes(path: tuple[str, ...], value: object, lines: list[str]) -> None:
    after = set_value(TEXT, path, value)
    assert changed_lines(TEXT, after) == lines
    found = load_yaml(after)
    for name in path:
        found = found[name]
    assert found == value


def test_a_key_follows_a_text_of_several_lines() -> None:
    text = "name: a\ndescription: >-\n  Two lines\n  of text.\n"
    assert set_value(text, ("precision",), "int8") == f"{text.rstrip()}\nprecision: int8\n"


def test_a_file_without_a_last_line_end_and_a_variable_as_text() -> None:
    text = "endpoints:\n  one:\n    kind: single\n    environment: {A: b}"
    after = set_value(text, ("endpoints", "one", "environment", "OMP_NUM_THREADS"), "2")
    assert after == text.replace("{A: b}", "{A: b, OMP_NUM_THREADS: '2'}")


def test_a_file_on_one_line_stays_on_one_line() -> None:
    assert set_value("{name: a}\n", ("precision",), "int8") == "{name: a, precision: int8}\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- a\n", 1),
        ("name: a\none: text\n", 2),
        ("one: &shared {a: 1}\ntwo: *shared\n", 1),
        ("name: a\none: &shared\n  a: 1\ntwo: *shared\n", 2),
    ],
)
def test_a_form_that_would_change_more_is_rejected(text: str, line: int) -> None:
    with pytest.raises(UneditableFileError) as caught:
        set_value(text, ("one", "a"), 2)
    (violation,) = caught.value.violations
    assert (violation.file, violation.line, violation.code) == (NAME, line, "TS908")


def test_a_merged_value_is_overridden_where_it_is_merged() -> None:
    text = "base: &base {a: 1}\none: {<<: *base, b: 2}\n"
    assert set_value(text, ("one", "a"), 2) == text.replace("b: 2", "b: 2, a: 2")
    with pytest.raises(UneditableFileError):
        edit_mapping(text, ("one",), {"a": None})


@pytest.mark.parametrize("value", ["07:00", "1e3", "on", "2026-01-01", "a: b", "größer", ""])
def test_texts_stay_texts(value: str) -> None:
    for text in (TEXT, "recipe: {at: '08:00'}\n", "name: x\n"):
        after = load_yaml(set_value(text, ("recipe", "at"), value))
        assert after == load_yaml(text) | {"recipe": load_yaml(text).get("recipe", {}) | {"at": value}}


FILE = "a:\n  b: 1  # one\nc: {d: 2}\n"


def test_nothing_to_change_changes_nothing() -> None:
    assert edit_mapping(FILE, ("c", "e"), {"f": None}) == FILE
    assert edit_mapping(FILE, ("a",), {}) == FILE


def test_values_of_another_type_are_changes() -> None:
    assert set_value("a: 1\n", ("a",), True) == "a: true\n"
    assert set_value("a: 1\n", ("a",), 1.0) == "a: 1.0\n"


@pytest.mark.parametrize(
    ("text", "path", "changes", "expected"),
    [
        ("s: {a: 0x10,  # low\n  b: 2}\n", ("s",), {"b": 3}, "s: {a: 0x10,  # low\n  b: 3}\n"),
        ("s: {a: 'a#b',\n  b: 2}\n", ("s",), {"c": 3}, "s: {a: 'a#b',\n  b: 2, c: 3}\n"),
        ("s: { a: 010, b: 2, c: 3, }\n", ("s",), {"b": None}, "s: { a: 010, c: 3, }\n"),
        ("s: {a: 1, b: 2}\n", ("s",), {"a": None, "b": None, "c": "x, y"}, "s: {c: 'x, y'}\n"),
        ("s: {a, b: }\n", ("s",), {"a": 1, "b": 2}, "s: {a: 1, b: 2 }\n"),
        ("s: {}  # none\n", ("s",), {"a": 1}, "s: {a: 1}  # none\n"),
        ("s:  # later\nt: 1\n", ("s",), {"a": 1}, "s: {a: 1}  # later\nt: 1\n"),
        ("s:  # all\n  a: 1  # one\nt: 1\n", ("s",), {"a": None}, "# one\ns: {}  # all\nt: 1\n"),
        ("s:\n  - a  # one\n  # two\n  - b\n", (), {"s": ["c"]}, "# one\n# two\ns: [c]\n"),
        ("s:\n  - {a: 1, b: 0x2}  # one\n", (), {"s": [{"a": 3, "b": 2}]}, "s:\n  - {a: 3, b: 0x2}  # one\n"),
        ("s: |  # text\n  a\n\nt: 1\n", (), {"s": "b"}, "# text\ns: b\n\nt: 1\n"),
        ("s: |+\n  a\n\n", (), {"t": 1}, "s: |+\n  a\n\nt: 1\n"),
        ("s:\r\n  a: 1\r\n", ("s",), {"b": {"c": {"d": 1}}}, "s:\r\n  a: 1\r\n  b:\r\n    c: {d: 1}\r\n"),
    ],
)
def test_neighbors_comments_and_line_endings_stay(
    text: str, path: tuple[str, ...], changes: dict[str, Any], expected: str
) -> None:
    assert edit_mapping(text, path, changes) == expected


@pytest.mark.parametrize(
    "text", ["s: {a: 1,  # low\n  b: 2}\n", "s: {b: 2, a: [1,  # low\n  2]}\n", "s:\n  - a: {x: 1}  # low\n"]
)
def test_a_comment_that_would_be_lost_is_an_error_with_its_line(text: str) -> None:
    path, changes = (("s",), {"a": None}) if "- " not in text else ((), {"s": [{"b": 1}]})
    with pytest.raises(UneditableFileError) as caught:
        edit_mapping(text, path, changes)
    line = text[: text.index("#")].count("\n") + 1
    (violation,) = caught.value.violations
    assert (violation.file, violation.line, "'# low'" in violation.message) == (NAME, line, True)


REPOSITORY = find_project(Path(__file__)).root
FILES = sorted(
    file.relative_to(REPOSITORY)
    for pattern in ("models/*/model.yaml", "environments/*.yaml", "examples/*/**/*.yaml", "delivery.yaml")
    for file in REPOSITORY.glob(pattern)
    if ".lock." not in file.name
)


def keys(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key of every mapping that is in no list."""
    for name, value in data.items() if isinstance(data, dict) else ():
        yield (*path, name)
        yield from keys(value, (*path, name))


@pytest.mark.parametrize(
    ("file", "newline"), list(zip(FILES, itertools.cycle(["\n", "\r\n"]), strict=False)), ids=str
)
def test_each_edit_of_a_real_file_changes_one_key_and_no_other_line(file: Path, newline: str) -> None:
    text = (REPOSITORY / file).read_bytes().decode().replace("\n", newline)
    edits = 0
    for *parents, name in keys(load_yaml(text)):
        for key, value in ((name, None), (name, "changed"), ("new", [1])):
            try:
                after = edit_mapping(text, tuple(parents), {key: value})
            except UneditableFileError:
                continue  # a comment in braces would be lost
            wanted = found = load_yaml(text)
            for parent in parents:
                found = found[parent]
            found.pop(key) if value is None else found.update({key: value})
            assert load_yaml(after) == wanted
            assert ("\n" in after.replace("\r\n", "")) is (newline == "\n")
            assert text.count("#") == after.count("#") or value is None
            differences = difflib.SequenceMatcher(None, text.splitlines(), after.splitlines()).get_opcodes()
            assert sum(kind != "equal" for kind, *_ in differences) <= 2
            edits += 1
    assert edits >= 3
