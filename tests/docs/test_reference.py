"""docs/reference/ is what the types say."""

from __future__ import annotations

import re

from tools.reference.pages import FILES, FOLDER, pages
from tritonstack.cli.registry import COMMANDS


def test_the_pages_are_current() -> None:
    """If this fails, run `make reference`."""
    for name, text in pages():
        assert (FOLDER / name).read_text() == text, name
    assert {file.name for file in FOLDER.glob("*.md")} == {
        *FILES,
        "cli.md",
        "constructs.md",
        "results.md",
    }


def test_every_command_and_key_of_the_models_is_there() -> None:
    text = (FOLDER / "cli.md").read_text()
    assert set(COMMANDS) <= set(re.findall(r"^### (\w+)", text, re.MULTILINE))
    for name, (record, *_) in FILES.items():
        keys = set(re.findall(r"^\| `([\w-]+)` \|", (FOLDER / name).read_text(), re.MULTILINE))
        assert set(record.model_fields) <= keys
