"""The git checkout that a project's files lie in: where it stands, who works in it, and what its files were.

A project need not be in git: then there is no commit, and no earlier version of any file.
"""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from catalog.errors import TritonstackError

_ACTORS = ("GITHUB_ACTOR", "CODEBUILD_INITIATOR")
"""Who a CI acts for, where it says so."""


class CheckoutError(TritonstackError):
    """Git does not know what was asked for."""


@dataclass(frozen=True)
class Commit:
    """One commit that changed a file."""

    id: str
    at: str
    """When it was made, in UTC: 2026-11-22T08:30:00Z."""
    by: str
    subject: str


@dataclass(frozen=True)
class Checkout:
    """The files of a project, as git knows them."""

    root: Path

    @property
    def exists(self) -> bool:
        """Whether the project is in git, and has a commit."""
        return self._ask("rev-parse", "--verify", "HEAD") is not None

    def state(self, *, apart_from: str = "", new_below: Sequence[str] = ()) -> str | None:
        """The commit that is checked out, with `+` at its end if files that git follows differ from it.

        Those whose paths match `apart_from` may differ. Below the folders `new_below` a file that git has not
        been told of counts as well, unless it ignores it.
        """
        head = self._ask("rev-parse", "HEAD")
        if head is None:
            return None
        exceptions = [f":(exclude){apart_from}"] if apart_from else []
        changed = self._ask("status", "--porcelain", "--untracked-files=no", "--", ".", *exceptions)
        new = self._ask("ls-files", "--others", "--exclude-standard", "--", *new_below) if new_below else None
        return head.strip() + ("+" if changed or new else "")

    def actor(self) -> str:
        """Who works here: as the CI says, as git has it, or as the machine knows them."""
        for name in _ACTORS:
            if named := os.environ.get(name):
                return named
        known = self._ask("config", "user.name")
        return known.strip() if known and known.strip() else getpass.getuser()

    def resolve(self, commit: str) -> str:
        """The whole id of a commit that a person named in short."""
        found = self._ask("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
        if found is None:
            raise CheckoutError(f"git knows no commit {commit!r}", remedy="`git log` lists them")
        return found.strip()

    def file_at(self, commit: str, file: Path) -> str | None:
        """The text of a file in a commit, None if it was not there."""
        return self._ask("show", f"{commit}:./{file.relative_to(self.root).as_posix()}")

    def files_at(self, commits: Sequence[str], file: Path) -> Iterator[str | None]:
        """The texts of a file in each of several commits, by one call of git; None where it was not there."""
        name = f"./{file.relative_to(self.root).as_posix()}"
        asked = "".join(f"{commit}:{name}\n" for commit in commits)
        # Sizes are those of the bytes, ends of lines and all.
        rest = self._raw("cat-file", "--batch", given=asked.encode()) or b""
        for _ in commits:
            header, _, rest = rest.partition(b"\n")
            kind, size = header.rpartition(b" ")[::2]
            if not kind.endswith(b" blob"):
                yield None  # `<name> missing`
                continue
            body, rest = rest[: int(size)], rest[int(size) + 1 :]
            yield _text(body)

    def gap(self) -> str | None:
        """Why git may not know all that a file ever was; None if it does."""
        if not self.exists:
            return "the project is not in git"
        shallow = self._ask("rev-parse", "--is-shallow-repository")
        if shallow is None or shallow.strip() != "false":
            return "this is a shallow clone (`git fetch --unshallow` fetches the rest)"
        return None

    def changed_since(self, commit: str, paths: Iterable[str]) -> list[str] | None:
        """The files below these paths that differ from a commit, sorted; None if git does not know it.

        A file that git does not follow counts for nothing: what is deployed of it, something refers to.
        """
        said = self._ask("diff", "--name-only", "--relative", commit, "--", *paths)
        return None if said is None else sorted(said.splitlines())

    def changes_of(self, file: Path, *, every_branch: bool = False) -> Iterator[Commit]:
        """The commits that changed a file, the latest first: merges by their first parent, or all of them."""
        said = self._ask(
            "log",
            "--full-history" if every_branch else "--first-parent",
            "--format=%H%x00%cd%x00%an%x00%s",
            "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
            "--",
            str(file.relative_to(self.root)),
        )
        # Not splitlines(): names and subjects may hold what only Python takes for an end of line.
        for line in filter(None, (said or "").split("\n")):
            commit, at, by, subject = line.split("\0")
            yield Commit(commit, at, by, subject)

    def _ask(self, *arguments: str) -> str | None:
        """What git says, None where it refuses."""
        said = self._raw(*arguments)
        return None if said is None else _text(said)

    def _raw(self, *arguments: str, given: bytes = b"") -> bytes | None:
        try:
            ended = subprocess.run(
                ["git", "-C", str(self.root), *arguments],
                env={**os.environ, "TZ": "UTC", "LC_ALL": "C"},
                input=given,
                capture_output=True,
                check=False,
            )
        except FileNotFoundError:
            return None  # a machine without git
        return ended.stdout if ended.returncode == 0 else None


def _text(said: bytes) -> str:
    return said.decode(errors="replace").replace("\r\n", "\n")
