"""Each block of commands is run by a test, or says that it needs AWS or a GPU."""

from __future__ import annotations

import re

import pytest

from tests.docs.commands import TUTORIAL, WALKTHROUGH, runs_here
from tests.docs.pages import PAGES, ROOT, Block, blocks
from tests.docs.run_elsewhere import RUN_ELSEWHERE, not_run, run_elsewhere
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
    if files := run_elsewhere(block):
        return files[0]
    return WALKTHROUGH if ROOT / block.page in TUTORIAL or runs_here(block) else ""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_is_run_or_says_what_it_needs(block: Block) -> None:
    test = run_by(block)
    assert test, f"{block.name}: begin it with `# needs AWS` or `# needs a GPU`, or let a test run it"
    assert test == "marked" or (ROOT / test).is_file()


@pytest.mark.parametrize(("page", "begin", "files"), RUN_ELSEWHERE)
def test_the_named_tests_run_the_commands(page: str, begin: str, files: tuple[str, ...]) -> None:
    (block,) = (block for block in BLOCKS if block.page == page and run_elsewhere(block) == files)
    assert block.text.startswith(begin)
    assert not_run(block) == []
