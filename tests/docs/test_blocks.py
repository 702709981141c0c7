"""Each block of commands is run by a test, or says that it needs AWS or a GPU."""

from __future__ import annotations

import re

import pytest

from tests.docs.commands import TUTORIAL, WALKTHROUGH, runs_here
from tests.docs.pages import PAGES, ROOT, Block, blocks
from tests.docs.run_elsewhere import NOT_RUN as NOT_RUN_ELSEWHERE
from tests.docs.run_elsewhere import RUN_ELSEWHERE, Elsewhere, commands, elsewhere, not_run
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


@pytest.mark.parametrize("line", NOT_RUN_ELSEWHERE)
def test_a_command_without_a_test_is_in_a_block(line: str) -> None:
    assert [one for one in RUN_ELSEWHERE if line in " ".join(one.text.split())]


def test_commands_are_compared_with_their_options() -> None:
    text = 'cd shop\neval "$(tritonstack up --detach --shell)"  # up --account\n'
    text += "tritonstack down --all && make lint\n"
    assert list(commands(text)) == [{"up", "--detach", "--shell"}, {"down", "--all"}, {"lint"}]
    test = "tests/cli/local/test_dev.py"
    assert not_run(Elsewhere("page", "tritonstack dev double --port 1\n", (test,))) == []
    for line in ("tritonstack dev double --watch", "tritonstack up", "tritonstack edits", "make edits"):
        assert not_run(Elsewhere("page", f"{line}\n", (test,))), line


def test_a_block_without_a_test_is_found() -> None:
    assert run_by(Block("docs/models.md", 1, "# needs AWS\ntritonstack deploy dev\n")) == "marked"
    assert run_by(Block("docs/models.md", 1, "# needs a GPU\ntritonstack build dev\n")) == "marked"
    assert run_by(Block("docs/models.md", 1, "tritonstack deploy dev\n")) == ""
    assert run_by(Block("docs/models.md", 1, "tritonstack status local\n")).endswith("test_commands.py")
