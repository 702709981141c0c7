"""Each block of commands is run by a test, or says that it needs AWS or a GPU."""

from __future__ import annotations

import re

import pytest

from tests.docs.commands import TUTORIAL, WALKTHROUGH, runs_here
from tests.docs.pages import PAGES, ROOT, Block, blocks
from tests.docs.run_elsewhere import RUN_ELSEWHERE, Elsewhere, elsewhere, not_run
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
    if found := elsewhere(block):
        return found.files[0]
    return WALKTHROUGH if ROOT / block.page in TUTORIAL or runs_here(block) else ""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_is_run_or_says_what_it_needs(block: Block) -> None:
    found = run_by(block)
    assert found, f"{block.name}: begin it with `# needs AWS` or `# needs a GPU`, or let a test run it"
    assert found == "marked" or (ROOT / found).is_file()


@pytest.mark.parametrize("one", RUN_ELSEWHERE, ids=lambda one: f"{one.page}: {one.text.splitlines()[0]}")
def test_a_named_test_runs_the_commands(one: Elsewhere) -> None:
    """Each entry is a block as it is now, and its tests run each command with its options."""
    assert [block for block in BLOCKS if (block.page, block.text) == (one.page, one.text)]
    assert [sorted(words) for words in not_run(one)] == []
