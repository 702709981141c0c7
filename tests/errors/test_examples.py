"""Each code has an example that produces it, and the pages show what the examples produce."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.errors.examples import EXAMPLES, HOW_ELSE, Shown, show
from tests.errors.page import COMMAND, PAGE, explained, kinds, page
from tritonstack.base.errors import InvalidFilesError
from tritonstack.workflows.error_codes import GENERATED

ADVICE = f"run `{COMMAND}`"


@pytest.fixture(scope="module")
def shown() -> dict[str, Shown]:
    """What the examples of this run have shown so far."""
    return {}


def test_every_code_has_an_example_or_a_reason_for_none() -> None:
    assert EXAMPLES.keys() | HOW_ELSE.keys() == kinds().keys()
    assert not EXAMPLES.keys() & HOW_ELSE.keys()
    assert len(HOW_ELSE) < 0.15 * len(kinds())


@pytest.mark.parametrize("code", sorted(EXAMPLES))
def test_an_example_produces_its_code(tmp_path: Path, shown: dict[str, Shown], code: str) -> None:
    shown[code] = show(EXAMPLES[code], tmp_path.resolve())
    section = PAGE.read_text().partition(f"### {code} ")[2].partition("\n### ")[0]
    assert f"```text\n{shown[code].message}\n```" in section, ADVICE


def test_every_message_on_the_page_has_help_and_its_own_code() -> None:
    without_help, with_another_code = [], []
    for code in EXAMPLES:
        section = PAGE.read_text().partition(f"### {code} ")[2].partition("\n### ")[0]
        message = section.partition("```text\n")[2].partition("\n```")[0]
        if "\n  help: " not in message:
            without_help.append(code)
        first = message.partition("\n")[0]
        listed = first.startswith("error: ") and (f" [{code}]" in message or code == InvalidFilesError.code)
        if not first.startswith(f"error[{code}]: ") and not listed:
            with_another_code.append(code)
    assert (without_help, with_another_code) == ([], [])


def test_the_generated_files_are_up_to_date(tmp_path: Path, shown: dict[str, Shown]) -> None:
    for code in sorted(EXAMPLES.keys() - shown.keys()):
        shown[code] = show(EXAMPLES[code], tmp_path.resolve() / code)
    in_order = {code: shown[code] for code in sorted(shown)}
    assert PAGE.read_text() == page(in_order), ADVICE
    assert GENERATED.read_text() == explained(in_order), ADVICE
