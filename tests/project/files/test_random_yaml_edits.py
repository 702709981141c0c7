"""Random edits of random YAML documents: the wanted data, and nothing else changes."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from tests.project.files.yaml_documents import Document, KeyPath
from tritonstack.base.yaml import load_yaml
from tritonstack.project.files.yaml_edits import UneditableFileError, edit_mapping

FILE = Path("models/a/model.yaml")
VALUES: tuple[Any, ...] = (
    7,
    0.25,
    True,
    "text",
    "a, b",
    "# no comment",
    [1, 2],
    [],
    {},
    {"one": 1},
    {"one": {"two": 2}, "three": "x"},
)


def planned(document: Document, generator: random.Random) -> tuple[KeyPath, dict[str, Any]]:
    """Return the path of a mapping, and the change of one of its keys; the root keeps a key."""
    path = generator.choice(document.mappings())
    present = value_at(document.data, path)
    if generator.random() < 0.2:
        path = (*path, generator.choice(("new", *(key for key, value in present.items() if value is None))))
        present = {}
    name = generator.choice((*present, "new"))
    removes = name in present and generator.random() < 0.4 and (path or len(present) > 1)
    return path, {name: None if removes else generator.choice(VALUES)}


def value_at(data: Any, path: KeyPath) -> Any:
    for key in path:
        data = data[key]
    return data


def wanted_data(data: Any, path: KeyPath, changes: dict[str, Any]) -> Any:
    wanted = part = copy.deepcopy(data)
    for key in path:
        if part.get(key) is None:
            part[key] = {}
        part = part[key]
    for key, value in changes.items():
        part.pop(key, None) if value is None else part.update({key: value})
    return wanted


def typed(data: Any) -> str:
    """Tell 1, 1.0, and true apart; the order of keys does not count."""
    if isinstance(data, dict):
        return repr({key: typed(data[key]) for key in sorted(data)})
    return repr([typed(item) for item in data]) if isinstance(data, list) else repr(data)


def missing(lines: list[str], after: list[str]) -> list[str]:
    """Return the lines that are not in a text in their order."""
    rest = iter(after)
    return [line for line in lines if line not in rest]


def refusal(document: Document, generator: random.Random) -> UneditableFileError | None:
    """Change a key of a document, and check what must hold of the result; return why it is refused."""
    assert typed(load_yaml(document.text)) == typed(document.data)
    path, changes = planned(document, generator)
    try:
        after = edit_mapping(document.text, path, changes, file=FILE)
    except UneditableFileError as error:
        return error
    wanted = wanted_data(document.data, path, changes)
    assert typed(load_yaml(after)) == typed(wanted)
    edited = (*path, *changes)
    if path and value_at(wanted, path) == {}:  # its last key is removed
        edited = path
    newline = document.newline
    assert missing(document.kept_lines(edited), after.split(newline)) == []
    assert after.replace(newline, "").count(newline[-1]) == 0
    for number in range(1, document.comments + 1):
        assert after.count(f"# comment {number}:") == 1
    return None


@pytest.mark.parametrize("seed", range(500))
def test_one_key_changes_and_nothing_else(seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - no secret
    document = Document(generator)
    refused = refusal(document, generator)
    assert refused is None or document.comments_in_braces
    assert refused is None or "'# comment" in refused.message


@pytest.mark.parametrize("seed", range(200))
def test_what_anchors_share_is_refused_or_changes_at_one_place(seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - no secret
    document = Document(generator, with_anchors=True)
    refused = refusal(document, generator)
    assert refused is None or document.comments_in_braces or document.anchors
    assert refused is None or str(FILE) in refused.message
