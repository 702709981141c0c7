"""Commit ids in events, locks, and verdicts: `<commit>`, or `<commit>+uncommitted`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

UNCOMMITTED = "+uncommitted"
"""Suffix of a commit id if files differed from that commit."""
BUILD_CODE = (
    "model_build",
    *(f"tritonstack/{name}" for name in ("base", "facts", "files", "client", "triton")),
)
"""Folders of the build code. Model hashes do not cover them."""
PINS = ("requirements.txt", "requirements.lock.txt", "constraints.txt")
"""Files that pin the tool that synthesizes, in a repository made by `tritonstack init`; version 0.1.0 wrote
constraints.txt."""
BUILD_PINS = (*PINS, "requirements-local.txt", "requirements-local.lock.txt")
"""Files that pin the tool that builds, which is not in such a repository."""
MAX_LISTED = 20
"""Maximum number of uncommitted files in a record."""

UncommittedFiles = Annotated[tuple[str, ...], Field(min_length=1)] | None
"""Files that differed from the commit, relative to the project; None if there were none."""


def is_committed(commit: str | None) -> bool:
    """Check whether all files matched the commit. Earlier versions wrote `<commit>+`."""
    return commit is not None and "+" not in commit


def commit_id(commit: str) -> str:
    """Return the commit id without its suffix."""
    return commit.partition("+")[0]


def short_commit(commit: str) -> str:
    """Return a commit with eight digits of its id: 1a2b3c4d, or 1a2b3c4d+uncommitted."""
    return commit_id(commit)[:8] + ("" if is_committed(commit) else UNCOMMITTED)


def list_files(files: Sequence[str] | None, *, most: int = 3) -> str:
    """Return file names for a message, shortened to the first few."""
    names = list(files or ())
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def recorded_files(files: Sequence[str]) -> UncommittedFiles:
    """Return file names for a record; the last item is a count if there are too many."""
    if len(files) <= MAX_LISTED:
        return tuple(files) or None
    return (*files[:MAX_LISTED], f"({len(files) - MAX_LISTED} more)")


def commit_commands(commit: str | None, files: Iterable[str], *, message: str = "") -> list[str]:
    """Return the shell commands that commit files; without an earlier `commit`, they make the repository."""
    start = [] if commit else ["git init"]
    return [
        *start,
        shlex.join(["git", "add", *files]),
        f'git commit -m "{message}"' if message else "git commit",
    ]


def is_hashed(file: str) -> bool:
    """Check whether an artifact's or image's hash covers a file, so that the same hash means the same file.

    The hash covers neither the build code, nor its pinned version, nor files that a record only counts.
    """
    return file not in BUILD_PINS and not file.startswith((*(f"{folder}/" for folder in BUILD_CODE), "("))
