"""Steps of the GitHub workflows: find the last deploy, propose changed locks, and comment on pull requests.

They need `gh` with a token. Proposals also need git with permission to push.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import Project

PROPOSED = "environments"
"""The folder whose changes are proposed."""
CHECKS = "pull-request.yml"
"""The workflow that checks a proposal."""
LONGEST = 65_000
"""GitHub accepts 65,536 characters."""
_CUT = "\n\n… (truncated; the workflow's log has the full text)"
_EMPTY = "The command failed before it printed anything; the workflow's log shows why."
_AUTHOR = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com")


class GitHubError(TritonstackError):
    """A step of the delivery workflows called git or `gh`. The message has their output; check the
    permissions of the job and its token.
    """

    code = "TS618"
    title = "git or GitHub's command line failed"


@dataclass(frozen=True)
class PreviousDeploy:
    """The commit of the last successful deploy; empty if there is none."""

    before: str


@dataclass(frozen=True)
class LockProposal:
    """A pull request with changed locks."""

    branch: str
    number: int | None
    """Number of the pull request that was updated; None for a new one."""


@dataclass(frozen=True)
class ProposedChange:
    """Whether changed locks were proposed."""

    proposal: LockProposal | None
    """None without changes."""


@dataclass(frozen=True)
class WrittenComment:
    """A comment on a pull request."""

    about: str
    pull_request: int


def last_deployed(*, workflow: str, pushed_over: str) -> str:
    """Return the commit of the last successful run of a workflow.

    Without such a run, it is the commit before the push. A run without a push compares with no commit. An
    earlier push may have failed or may await approval, so its commit is not necessarily deployed.
    """
    if not pushed_over:
        return ""
    only = ("--status", "success", "--limit", "1", "--json", "headSha", "--jq", ".[].headSha")
    return _run("gh", "run", "list", "--workflow", workflow, *only) or pushed_over


def propose_change(
    project: Project, *, repository: str, branch: str, title: str, body: Path
) -> LockProposal | None:
    """Propose the changes of environments/ as a pull request; return None without changes.

    An open proposal on the same branch is replaced. The checks are started last: an incomplete proposal has
    none, cannot be merged, and is completed by the next run.
    """
    text = {"title": title, "body": _code_block(_read(body))}
    root = project.root
    if not _run("git", "status", "--porcelain", "--", PROPOSED, cwd=root):
        return None
    base = _run("git", "branch", "--show-current", cwd=root)
    _run("git", "switch", "--force-create", branch, cwd=root)
    _run("git", "add", "--", PROPOSED, cwd=root)
    name, email = _AUTHOR
    _run("git", "-c", f"user.name={name}", "-c", f"user.email={email}", "commit", "-m", title, cwd=root)
    _run("git", "push", "--force", "origin", branch, cwd=root)
    number = _open_proposal(repository, branch)
    # `gh pr edit` would query project boards, which the token of a workflow may not read.
    if number:
        _send("PATCH", f"repos/{repository}/pulls/{number}", text)
    else:
        _send("POST", f"repos/{repository}/pulls", {"base": base, "head": branch, **text})
    # A push from a workflow starts no other workflow unless it is started by name.
    _run("gh", "workflow", "run", CHECKS, "--ref", branch)
    return LockProposal(branch, number)


def comment(*, repository: str, pull_request: int, about: str, file: Path, verbatim: bool) -> None:
    """Create or update the comment about a subject on a pull request. A hidden mark identifies it.

    A failed command leaves an empty file: the comment then says so instead of keeping outdated text.
    """
    mark = f"<!-- tritonstack: {about} -->"
    text = _read(file)
    content = _EMPTY if not text.strip() else _code_block(text) if verbatim else _limited(text)
    body = {"body": f"{mark}\n{content}"}
    issues = f"repos/{repository}/issues"
    query = f".[] | select(.body | startswith({json.dumps(mark)})) | .id"
    earlier = _run("gh", "api", "--paginate", f"{issues}/{pull_request}/comments", "--jq", query)
    if earlier:
        _send("PATCH", f"{issues}/comments/{earlier.splitlines()[0]}", body)
    else:
        _send("POST", f"{issues}/{pull_request}/comments", body)


def _open_proposal(repository: str, branch: str) -> int | None:
    """Return the open pull request of a branch of this repository; branches of forks do not count."""
    owner = repository.partition("/")[0]
    jq_filter = f".head.ref == {json.dumps(branch)} and .head.repo.full_name == {json.dumps(repository)}"
    only = (
        "-f",
        f"head={owner}:{branch}",
        "-f",
        "state=open",
        "--jq",
        f".[] | select({jq_filter}) | .number",
    )
    proposals = _run("gh", "api", "--method", "GET", f"repos/{repository}/pulls", *only)
    return int(proposals.splitlines()[0]) if proposals else None


def _code_block(text: str) -> str:
    """Return a text as a Markdown code block of at most the length that GitHub accepts."""
    text = text.rstrip()
    return f"```text\n{text[:LONGEST]}\n```{_CUT if len(text) > LONGEST else ''}"


def _limited(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + _CUT


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandLineError(f"{file}: cannot read the text: {error}", remedy="name a text file") from None


def _send(method: str, path: str, content: dict[str, str]) -> None:
    _run("gh", "api", "--silent", "--method", method, path, "--input", "-", stdin=json.dumps(content))


def _run(*command: str, cwd: Path | None = None, stdin: str | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True, input=stdin)
    except FileNotFoundError:
        raise GitHubError(f"{command[0]} is not installed", remedy=f"install {command[0]}") from None
    if done.returncode:
        raise GitHubError(
            f"`{_shown(command)}` failed with exit code {done.returncode}:\n{done.stderr.strip()}",
            remedy=f"check the permissions of the job and the token of {command[0]}",
        )
    return done.stdout.strip()


def _shown(command: Sequence[str]) -> str:
    return " ".join(command[:6]) + (" …" if len(command) > 6 else "")
