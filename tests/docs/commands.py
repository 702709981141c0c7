"""Run the commands that the documentation shows."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.docs.pages import PAGES, ROOT, Block, blocks, page_id
from tests.docs.run_elsewhere import run_elsewhere
from tritonstack.base.paths import Project

TUTORIAL = [ROOT / "docs" / "tutorial" / f"first-{name}.md" for name in ("model", "endpoint", "promotion")]
WALKTHROUGH = "tests/docs/test_commands.py"
AWS_ENVIRONMENTS = re.compile(r"^tritonstack \w+ (dev|prod|preview)\b(?! --since)", re.MULTILINE)
ONLY_READS = ("tritonstack quotas dev",)


def runs_here(block: Block) -> bool:
    """Return whether test_commands.py runs a block: it needs no environment on AWS."""
    return block.text.strip() in ONLY_READS or not AWS_ENVIRONMENTS.search(block.text)


def pages_to_run() -> Iterator[tuple[str, list[str]]]:
    """Yield the pages with commands that run in the repository of the tutorial, and their blocks."""
    for page in PAGES:
        name = page_id(page)
        if page.parent == ROOT or page in TUTORIAL or name.startswith("examples/"):
            continue
        texts = [block.text for block in blocks(page) if not block.marked and not run_elsewhere(block)]
        if texts:
            yield name, texts


# The machine has what `make setup` and `tritonstack setup` install; a clone gets links to it.
INSTALLED = """\
make() {
  ln -s "$INSTALLED/.venv" "$INSTALLED/node_modules" .
  mkdir -p .tritonstack/cdk
  ln -s "$INSTALLED/.tritonstack/server" .tritonstack/server
  ln -s "$INSTALLED/node_modules" .tritonstack/cdk/node_modules
  cp package-lock.json .tritonstack/cdk/
  command make --silent --old-file=setup "$@"
}
"""


def run(texts: Sequence[str], folder: Path, *, state: Path | None = None, timeout: int = 900) -> str:
    """Run blocks in one shell; return the output. Fails with the end of the output if a command fails."""
    marked = [f"echo {shlex.quote('+ ' + text.splitlines()[0])}\n{text}" for text in texts]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            ["bash", "-e", "-o", "pipefail", "-c", "\n".join([INSTALLED, *marked])],
            cwd=folder,
            env=_variables(state),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        shown = output.read()
    assert process.returncode == 0, "\n".join(shown.splitlines()[-40:])
    return shown


def _variables(state: Path | None) -> dict[str, str]:
    """Return the environment without what selects another cloud or project."""
    others = ("AWS_", "CDK_DEFAULT_", "TRITONSTACK_", "MAKE", "VIRTUAL_ENV")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(others)}
    person = {f"GIT_{role}_{key}": "docs" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    path = os.pathsep.join([f"{sys.prefix}/bin", f"{ROOT}/node_modules/.bin", kept.get("PATH", "")])
    places = {"INSTALLED": str(ROOT), "TRITONSTACK_REPOSITORY": str(ROOT), "PATH": path}
    home = {"TRITONSTACK_HOME": str(state)} if state else {}
    return {**kept, **person, **places, **home, "COLUMNS": "160", "PYTHONUNBUFFERED": "1"}


def tutorial_blocks(page: Path) -> list[str]:
    """Return the blocks of a page of the tutorial."""
    return [block.text for block in blocks(page)]


def tutorial_project(folder: Path, state: Path) -> Project:
    """Create the tutorial's repository with its model, without the clone and the demo before it."""
    clone, create, *model = tutorial_blocks(TUTORIAL[0])
    assert "git clone" in clone
    state.mkdir()
    (state / "server").symlink_to(Project(ROOT).server_dir)
    (state / "cdk").mkdir()
    (state / "cdk" / "node_modules").symlink_to(ROOT / "node_modules")
    (state / "cdk" / "package-lock.json").write_bytes((ROOT / "package-lock.json").read_bytes())
    (folder / "tritonstack").mkdir(parents=True)
    create = re.sub(r"^export TRITONSTACK_HOME=.*\n", "", create, flags=re.MULTILINE)
    run([create, *model], folder / "tritonstack", state=state)
    return Project(folder / "shop")
