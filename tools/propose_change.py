"""Propose what a command has changed in environments/, as a pull request: the last step of a workflow.

    python tools/propose_change.py --branch promote/prod --title "Promote dev to prod" --body promotion.md

Does nothing where nothing has changed. A branch of that name is a proposal of the same kind that nobody has
taken up: it is replaced, and its pull request with it. Needs git with the right to push, and gh.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

PROPOSED = "environments"
CHECKS = "pull-request.yml"
_AUTHOR = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com")


def main(arguments: list[str]) -> int:
    """Commit, push, and open a pull request or renew the one that is open."""
    options = _parse(arguments)
    if not _said("git", "status", "--porcelain", "--", PROPOSED):
        print("nothing has changed: there is nothing to propose")
        return 0
    base = _said("git", "branch", "--show-current")
    _run("git", "switch", "--force-create", options.branch)
    _run("git", "add", "--", PROPOSED)
    name, email = _AUTHOR
    _run("git", "-c", f"user.name={name}", "-c", f"user.email={email}", "commit", "-m", options.title)
    _run("git", "push", "--force", "origin", options.branch)
    body = ["--title", options.title, "--body", f"```text\n{options.body.read_text().rstrip()}\n```"]
    found = _said(
        "gh",
        "pr",
        "list",
        "--head",
        options.branch,
        "--state",
        "open",
        "--json",
        "number",
        "--jq",
        ".[].number",
    )
    if found:
        _run("gh", "pr", "edit", found.splitlines()[0], *body)
    else:
        _run("gh", "pr", "create", "--base", base, "--head", options.branch, *body)
    # What a workflow pushes starts no other workflow, except one that is asked for by name.
    _run("gh", "workflow", "run", CHECKS, "--ref", options.branch)
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--branch", required=True, help="the branch that holds the proposal")
    parser.add_argument("--title", required=True, help="of the commit and the pull request")
    parser.add_argument("--body", required=True, type=Path, help="a file with the pull request's text")
    return parser.parse_args(arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
