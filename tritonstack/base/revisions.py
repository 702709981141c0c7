"""Commits as events, locks and verdicts name them: `<commit>`, or `<commit>+uncommitted`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

UNCOMMITTED = "+uncommitted"
"""What follows a commit's id if files differed from that commit."""
BUILD_CODE = (
    "model_build",
    *(
        f"tritonstack/{name}"
        for name in ("base", "reference", "spec", "records", "project", "client", "runtime")
    ),
)
"""The folders of code that artifacts are built by. A model's hash does not cover them."""
MAX_LISTED = 20
"""How many uncommitted files a record lists."""

UncommittedFiles = Annotated[tuple[str, ...], Field(min_length=1)] | None
"""The files that differed from the commit, relative to the project; None if there were none."""


def is_committed(commit: str | None) -> bool:
    """Return whether all files were those of a commit. Earlier versions wrote `<commit>+`."""
    return commit is not None and "+" not in commit


def commit_id(commit: str) -> str:
    """Return the id of the commit alone."""
    return commit.partition("+")[0]


def short_commit(commit: str) -> str:
    """Return a commit with eight digits of its id: 1a2b3c4d, or 1a2b3c4d+uncommitted."""
    return commit_id(commit)[:8] + ("" if is_committed(commit) else UNCOMMITTED)


def list_files(files: Sequence[str] | None, *, most: int = 3) -> str:
    """Return file names for a message, the first of them if there are many."""
    shown = list(files or ())
    rest = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {rest} more" if rest > 0 else "")


def recorded_files(files: Sequence[str]) -> UncommittedFiles:
    """Return file names for a record, the last item a count if there are many."""
    if len(files) <= MAX_LISTED:
        return tuple(files) or None
    return (*files[:MAX_LISTED], f"({len(files) - MAX_LISTED} more)")


def is_hashed(file: str) -> bool:
    """Return whether an artifact's or image's hash covers a file, so that the same hash means the same file.

    The code of the builder is not covered, nor a file that a record only counts.
    """
    return not file.startswith((*(f"{folder}/" for folder in BUILD_CODE), "("))
