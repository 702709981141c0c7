"""The commands of the tutorial, and those of all pages that need no AWS account, run as they are shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.commands import TUTORIAL, pages_to_run, run, tutorial_blocks, tutorial_project
from tritonstack.base.paths import Project

pytestmark = pytest.mark.soak

PAGES = dict(pages_to_run())
STOP = "tritonstack down --all --forget"


def test_the_tutorial_runs_from_the_clone_to_the_end(tmp_path: Path) -> None:
    """All blocks in one script: clone, demo, init, a model, deploy, change, roll back, promote, destroy."""
    texts = [text for page in TUTORIAL for text in tutorial_blocks(page)]
    try:
        output = run(texts, tmp_path, timeout=1200)
    finally:
        shop, state = tmp_path / "shop", tmp_path / "tritonstack" / ".tritonstack"
        if shop.is_dir():
            with contextlib.suppress(AssertionError):
                run([STOP], shop, state=state)
    assert "all steps passed" in output
    assert "verified: local matches" in output
    assert "verified: live matches" in output


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Path]]:
    """The repository of the tutorial, deployed to a local cloud."""
    folder = tmp_path_factory.mktemp("docs")
    state = folder / "state"
    project = tutorial_project(folder, state)
    run(["git update-ref refs/remotes/origin/main HEAD"], project.root, state=state)
    start, deploy, *_ = tutorial_blocks(TUTORIAL[1])
    try:
        run([start, deploy], project.root, state=state)
        yield project, state
    finally:
        run([STOP], project.root, state=state)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, shop: tuple[Project, Path]) -> None:
    project, state = shop
    run(["git reset --quiet --hard && git clean --quiet -d --force"], project.root, state=state)
    (archive,) = (state / "artifacts" / "models" / "fraud").glob("*/model.tar.gz")
    (project.root / "model.tar.gz").write_bytes(archive.read_bytes())
    run(PAGES[page], project.root, state=state)
