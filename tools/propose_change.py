"""Propose what a command has changed in environments/, as a pull request: the last step of a workflow.

    python tools/propose_change.py --branch promote/prod --title "Promote dev to prod" --body promotion.md

Does nothing where nothing has changed. A branch of that name is a proposal of the same kind that nobody has
taken up: it is replaced, and its pull request with it. Checks are started last, and nobody merges a proposal
without them: one that was left half done waits for the next run, which makes it whole. Needs git with the
right to push, and gh.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

PROPOSED = "environments"
CHECKS = "pull-request.yml"
LONGEST = 65_000
"""GitHub takes 65,536 characters."""
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
    text = {"title": options.title, "body": body_text(options.body.read_text())}
    _put_forward(os.environ["GITHUB_REPOSITORY"], base, options.branch, text)
    # What a workflow pushes starts no other workflow, except one that is asked for by name.
    _run("gh", "workflow", "run", CHECKS, "--ref", options.branch)
    return 0


def body_text(text: str) -> str:
    """What the pull request says, cut where GitHub takes no more."""
    text = text.rstrip()
    more = "" if len(text) <= LONGEST else "\n\n… and more: the log of the workflow has all of it."
    return f"```text\n{text[:LONGEST]}\n```{more}"


def _put_forward(repository: str, base: str, branch: str, text: dict[str, str]) -> None:
    """By the plain interface: `gh pr edit` asks for boards, which the token of a workflow may not read."""
    pulls = f"repos/{repository}/pulls"
    owner = repository.partition("/")[0]
    # Anybody may open one from a fork's branch of that name: it is not the proposal.
    own = f".head.ref == {json.dumps(branch)} and .head.repo.full_name == {json.dumps(repository)}"
    only = ("-f", f"head={owner}:{branch}", "-f", "state=open", "--jq", f".[] | select({own}) | .number")
    found = _said("gh", "api", "--method", "GET", pulls, *only)
    if found:
        _send("PATCH", f"{pulls}/{found.splitlines()[0]}", text)
    else:
        _send("POST", pulls, {"base": base, "head": branch, **text})


def _send(method: str, path: str, content: dict[str, str]) -> None:
    command = ("gh", "api", "--silent", "--method", method, path, "--input", "-")
    subprocess.run(command, check=True, text=True, input=json.dumps(content))


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
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
