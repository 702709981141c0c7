"""Each block of commands is run by a test, or says that it needs AWS or a GPU."""

from __future__ import annotations

import re

import pytest

from tests.docs.commands import RUN_ELSEWHERE, runs_here
from tests.docs.pages import PAGES, ROOT, Block, blocks
from tools.examples import NOT_RUN

SITE = [page for page in PAGES if page.name != "README.md" or page.parent != ROOT]
"""README.md itself is no page of the site."""
BLOCKS = [block for page in SITE for block in blocks(page)]


def run_by(block: Block) -> str:
    """Return the file of the test that runs a block, or what the block needs; empty if neither."""
    if block.marked:
        return "marked"
    if example := re.fullmatch(r"examples/([\w-]+)/README\.md", block.page):
        above = "".join((ROOT / block.page).read_text().splitlines(keepends=True)[: block.line])
        if f"\n{NOT_RUN}\n" in above:
            return "marked"
        return f"tests/examples/test_{example[1].replace('-', '_')}.py"
    for (page, command), test in RUN_ELSEWHERE.items():
        if block.page.startswith(page) and command in block.text:
            return test
    return "tests/docs/test_commands.py" if runs_here(block) else ""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_is_run_or_says_what_it_needs(block: Block) -> None:
    found = run_by(block)
    assert found, f"{block.name}: begin it with `# needs AWS` or `# needs a GPU`, or let a test run it"
    assert found == "marked" or (ROOT / found).is_file()


@pytest.mark.parametrize(("place", "test"), RUN_ELSEWHERE.items())
def test_a_named_test_runs_the_command(place: tuple[str, str], test: str) -> None:
    """Each entry has a block, and its test has the words of the command."""
    page, command = place
    assert [block for block in BLOCKS if block.page.startswith(page) and command in block.text]
    text = (ROOT / test).read_text()
    for word in re.findall(r"[a-z]{3,}", command.removeprefix("tritonstack ")):
        assert word in text, word


def test_a_block_without_a_test_is_found() -> None:
    assert run_by(Block("docs/models.md", 1, "# needs AWS\ntritonstack deploy dev\n")) == "marked"
    assert run_by(Block("docs/models.md", 1, "# needs a GPU\ntritonstack build dev\n")) == "marked"
    assert run_by(Block("docs/models.md", 1, "tritonstack deploy dev\n")) == ""
    assert run_by(Block("docs/models.md", 1, "tritonstack status local\n")).endswith("test_commands.py")
