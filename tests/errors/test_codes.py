"""One class describes each code, one example produces it, and the page shows both."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.errors.examples import EXAMPLES, HOW_ELSE, show
from tests.errors.page import COMMAND, PAGE, described, error_classes, page
from tritonstack.base.errors import InvalidFilesError
from tritonstack.operate.project.error_codes import FORMER, GENERATED, GROUPS, UNUSED

ADVICE = f"run `{COMMAND}`"
KINDS = json.loads(GENERATED.read_text())
WITHOUT_CODE = {"TritonstackError", "UsageError", "EndpointClientError"}
"""Classes for many kinds of errors: each raise needs `code=`."""
REPLIED = "tritonstack_local."
"""Other errors of the local cloud become replies with AWS's own codes."""


@pytest.mark.parametrize("code", sorted(EXAMPLES))
def test_an_example_produces_its_code(tmp_path: Path, code: str) -> None:
    message = show(EXAMPLES[code], tmp_path.resolve())
    assert (message, EXAMPLES[code].caption) == (KINDS[code]["message"], KINDS[code]["example"]), ADVICE
    first, *rest = message.splitlines()
    listed = first.startswith("error: ") and (f" [{code}]" in message or code == InvalidFilesError.code)
    assert first.startswith(f"error[{code}]: ") or listed
    assert any(line.startswith("  help: ") for line in rest)


def test_the_page_shows_what_the_classes_and_examples_say() -> None:
    texts = {code: {name: kind[name] for name in ("title", "explanation")} for code, kind in KINDS.items()}
    assert texts == described(), ADVICE
    assert PAGE.read_text() == page(KINDS), ADVICE
    assert EXAMPLES.keys() | HOW_ELSE.keys() == KINDS.keys()
    assert not EXAMPLES.keys() & HOW_ELSE.keys()


def test_every_error_class_has_a_described_code() -> None:
    classes = error_classes()
    without = {one.__name__ for one in classes if not one.code and REPLIED not in one.__module__}
    assert without == WITHOUT_CODE
    assert {one.code for one in classes} - {""} == KINDS.keys()


def test_codes_are_few_and_explained_briefly() -> None:
    assert len(KINDS) <= 90
    assert all(re.fullmatch(r"TS\d{3}", code) and code[:3] in GROUPS for code in KINDS)
    assert not KINDS.keys() & (FORMER.keys() | UNUSED.keys())
    assert set(FORMER.values()) <= KINDS.keys()
    assert len({kind["title"] for kind in KINDS.values()}) == len(KINDS)
    texts = {code: kind["explanation"] for code, kind in KINDS.items()}
    wrong = [code for code, text in texts.items() if not 40 <= len(text) <= 400 or not text.endswith(".")]
    assert wrong == []
