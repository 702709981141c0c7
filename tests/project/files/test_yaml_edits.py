"""Values are set in YAML texts; comments, order, and everything else stay."""

from __future__ import annotations

import difflib

import pytest

from tritonstack.base.yaml_nodes import load_yaml
from tritonstack.project.files.yaml_edits import EditError, set_value

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


@pytest.mark.parametrize("text", ["{name: a}\n", "- a\n"])
def test_a_file_on_one_line_is_rejected(text: str) -> None:
    with pytest.raises(EditError, match="key per line"):
        set_value(text, ("precision",), "int8")


def test_an_anchor_that_others_repeat_is_rejected() -> None:
    text = "one: &shared {a: 1}\ntwo: *shared\n"
    with pytest.raises(EditError, match="another change"):
        set_value(text, ("one", "a"), 2)
