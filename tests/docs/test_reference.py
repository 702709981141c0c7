"""docs/reference/ is what the types say."""

from __future__ import annotations

import re

from tools.reference.markdown import anchor, cell
from tools.reference.pages import FILES, FOLDER, pages
from tools.reference.yaml_keys import KeyTables
from tritonstack.cli.registry import COMMANDS

SCHEMA = {
    "properties": {
        "name": {"type": "string", "description": "A | name."},
        "parts": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Part"}, "default": {}},
    },
    "required": ["name"],
    "$defs": {
        "Part": {
            "description": "One part.",
            "properties": {
                "kind": {"const": "small"},
                "size": {"type": "integer", "minimum": 1, "default": 2, "description": "How <many>."},
            },
        }
    },
}


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


def test_a_section_has_the_keys_of_a_mapping() -> None:
    top, part = KeyTables(SCHEMA, top="file.yaml").sections()
    assert top.startswith("## file.yaml\n")
    assert "| `name` | text | required | A \\| name. |" in top
    assert "| `parts` | names with [parts.NAME, kind small](#partsname-kind-small) |  |  |" in top
    assert part.startswith("## parts.NAME, kind small\n\nOne part.\n")
    assert "| `size` | whole number, at least 1 | `2` | How &lt;many>. |" in part


def test_anchors_and_cells() -> None:
    assert anchor("test_inputs[].random, kind a or b") == "test_inputsrandom-kind-a-or-b"
    assert cell("a <b>\nand `c|<d>`") == "a &lt;b> and `c\\|<d>`"


def test_every_command_and_key_of_the_models_is_there() -> None:
    text = (FOLDER / "cli.md").read_text()
    assert set(COMMANDS) <= set(re.findall(r"^### (\w+)", text, re.MULTILINE))
    for name, (record, *_) in FILES.items():
        keys = set(re.findall(r"^\| `([\w-]+)` \|", (FOLDER / name).read_text(), re.MULTILINE))
        assert set(record.model_fields) <= keys
