"""Open a pull request with the changes of a command in environments/: the last step of a workflow.

    python tools/propose_change.py --branch promote/prod --title "Promote dev to prod" --body promotion.md

Do nothing without changes. An existing branch of that name is an unmerged proposal of the same kind: replace
it and update its pull request. Start the checks last: a pull request that was left incomplete has none, so it
cannot be merged, and the next run completes it. Needs git with permission to push, and gh.
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
"""GitHub accepts 65,536 characters."""
_AUTHOR = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com")


def main(arguments: list[str]) -> int:
    """Commit, push, and open or update the pull request."""
    options = _parse(arguments)
    if not _output("git", "status", "--porcelain", "--", PROPOSED):
        print("no changes: no pull request needed")
        return 0
    base = _output("git", "branch", "--show-current")
    _run("git", "switch", "--force-create", options.branch)
    _run("git", "add", "--", PROPOSED)
    name, email = _AUTHOR
    _run("git", "-c", f"user.name={name}", "-c", f"user.email={email}", "commit", "-m", options.title)
    _run("git", "push", "--force", "origin", options.branch)
    text = {"title": options.title, "body": body_text(options.body.read_text())}
    _upsert_pull_request(os.environ["GITHUB_REPOSITORY"], base, options.branch, text)
    # A push by a workflow starts no other workflow; a dispatch does.
    _run("gh", "workflow", "run", CHECKS, "--ref", options.branch)
    return 0


def body_text(text: str) -> str:
    """Return the text of the pull request, cut at GitHub's limit."""
    text = text.rstrip()
    more = "" if len(text) <= LONGEST else "\n\n… truncated: see the log of the workflow."
    return f"```text\n{text[:LONGEST]}\n```{more}"


def _upsert_pull_request(repository: str, base: str, branch: str, text: dict[str, str]) -> None:
    """Create or update the pull request; `gh pr edit` needs access to projects, which the token lacks."""
    pulls = f"repos/{repository}/pulls"
    owner = repository.partition("/")[0]
    # A fork's pull request from a branch of that name is not this proposal.
    own = f".head.ref == {json.dumps(branch)} and .head.repo.full_name == {json.dumps(repository)}"
    only = ("-f", f"head={owner}:{branch}", "-f", "state=open", "--jq", f".[] | select({own}) | .number")
    found = _output("gh", "api", "--method", "GET", pulls, *only)
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
    parser.add_argument("--branch", required=True, help="the branch of the pull request")
    parser.add_argument("--title", required=True, help="the title of the commit and the pull request")
    parser.add_argument("--body", required=True, type=Path, help="a file with the pull request's text")
    return parser.parse_args(arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
