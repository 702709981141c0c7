"""Blocks of commands that a test outside of this folder runs: page, begin of the block, and those tests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from tests.docs.pages import ROOT, Block

CLOUD = "tests/e2e/local_cloud/test_cloud_process.py"
CLIENTS = "tests/e2e/local_cloud/test_clients.py"
DOWN = "tests/cli/local/test_down.py"
UPGRADE = "tests/packaging/test_upgrade.py"
RUN_ELSEWHERE = (
    ("CONTRIBUTING.md", "make setup-dev", ("Makefile",)),
    ("docs/delivery.md", "mkdir wheels", ("tests/packaging/test_repository.py",)),
    ("docs/guides/tear-down.md", "tritonstack down --all", (DOWN,)),
    ("docs/guides/upgrade.md", "pip install 'tritonstack", (UPGRADE,)),
    ("docs/guides/upgrade.md", "pip install --find-links", (UPGRADE, "tests/packaging/test_setup.py")),
    ("docs/local-cloud.md", "tritonstack up   ", (CLOUD, CLIENTS)),
    ("docs/local-cloud.md", 'eval "$(tritonstack up', ("tests/cli/local/test_credentials.py", CLIENTS)),
    ("docs/local-cloud.md", "tritonstack up --detach", (CLOUD, DOWN)),
    ("docs/local-cloud.md", "pytest tests/contract", ("tests/contract/test_endpoint.py",)),
    ("docs/models.md", "tritonstack dev double", ("tests/cli/local/test_dev.py",)),
    ("docs/runbook.md", "tritonstack history", ("tests/cli/operate/test_history.py",)),
    ("docs/runbook.md", "tritonstack inspect", ("tests/cli/builds/test_inspect.py",)),
    ("docs/tuning.md", "tritonstack tune", ("packages/sizing/tests/tuning/test_tune.py",)),
    ("examples/README.md", "tritonstack init", ("tests/packaging/test_whole_run.py",)),
)
NOT_RUN = {
    "tritonstack tune judge --rate 50 --texts reviews.txt --write": "it searches a text model for minutes",
    "pytest tests/contract --container IMAGE": "it needs a Docker engine and an image",
}
"""Commands in those blocks that no test runs with these options, and why."""


def run_elsewhere(block: Block) -> tuple[str, ...]:
    """Return the tests of a block; none if a test in this folder runs it."""
    for page, begin, files in RUN_ELSEWHERE:
        if page == block.page and block.text.startswith(begin):
            return files
    return ()


def not_run(block: Block) -> list[str]:
    """Return the subcommands and options of a block that none of its tests names."""
    texts = "\n".join((ROOT / file).read_text() for file in run_elsewhere(block))
    return [word for word in _words(block.text) if not re.search(rf"(?<![\w-]){word}(?![\w-])", texts)]


def _words(text: str) -> Iterator[str]:
    for line in re.sub(r'eval "\$\((.*?)\)"', r"\1", text).splitlines():
        program, *words = shlex.split(line, comments=True) or [""]
        if program in ("make", "pytest", "tritonstack") and shlex.join([program, *words]) not in NOT_RUN:
            yield from words[:1] if program != "pytest" else ()
            yield from (word for word in words if re.fullmatch(r"--?[a-z][\w-]*", word))
