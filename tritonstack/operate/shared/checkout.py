"""Read the git state of a project: commit, user, changed files, and earlier versions of files.

A project without git has no commit and no earlier versions.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tritonstack.base.errors import TritonstackError

_ACTORS = ("GITHUB_ACTOR", "CODEBUILD_INITIATOR")
"""CI variables that name the user."""


class CheckoutError(TritonstackError):
    """The commit does not exist in this clone, or files changed during the command. Fetch the commit, or
    rerun the command.
    """

    code = "TS511"
    title = "Commit not found, or files changed"


@dataclass(frozen=True)
class Commit:
    """One commit that changed a file."""

    id: str
    at: str
    """Commit time in UTC: 2026-11-22T08:30:00Z."""
    by: str
    subject: str


@dataclass(frozen=True)
class Checkout:
    """The project's files in git."""

    root: Path

    @property
    def exists(self) -> bool:
        """Return whether the project is in git and has a commit."""
        return self._ask("rev-parse", "--verify", "HEAD") is not None

    def head(self) -> str | None:
        """Return the commit that is checked out; None without git or without a commit."""
        head = self._ask("rev-parse", "--verify", "HEAD")
        return head.strip() if head else None

    def uncommitted(self, files: Collection[Path], folders: Collection[Path]) -> list[str]:
        """Return which of these differ from the checked-out commit, relative to the project, sorted.

        Files count whatever git thinks of their names: ignored, outside the repository, or marked
        assume-unchanged. Below folders, git decides: ignored files do not count. A submodule with changes
        counts as one file.
        """
        top = self._ask("rev-parse", "--show-toplevel")
        if top is None:
            return []
        changed, tracked = self._changed(Path(top.rstrip("\n"))), self._tracked(Path(top.rstrip("\n")))
        read = {file: {file.parent.resolve() / file.name, file.resolve()} for file in files if file.exists()}
        untracked = {file for file, places in read.items() if not places <= tracked}
        requested = {place for file in files for place in (file.parent.resolve() / file.name, file.resolve())}
        below = {folder.resolve() for folder in folders}
        around = {parent for path in requested | below for parent in path.parents}
        untracked |= {
            path
            for path in changed
            if path in requested or path in around or not below.isdisjoint((path, *path.parents))
        }
        root = self.root.resolve()
        named = (path.parent.resolve() / path.name for path in untracked)
        return sorted({Path(os.path.relpath(path, root)).as_posix() for path in named})

    def _changed(self, top: Path) -> set[Path]:
        """Return what differs from the commit: changed, staged, deleted, unmerged, and new files."""
        options = (
            "--porcelain=v1",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=none",
            "--no-renames",
        )
        output = self._ask("--no-optional-locks", "-C", str(top), "status", *options) or ""
        return {top / entry[3:].rstrip("/") for entry in output.split("\0") if entry}

    def _tracked(self, top: Path) -> set[Path]:
        """Return the files that git has and compares with the commit, those of submodules too."""
        output = self._ask("-C", str(top), "ls-files", "-v", "-z", "--recurse-submodules") or ""
        return {top / entry[2:] for entry in output.split("\0") if entry.startswith("H ")}

    def actor(self) -> str:
        """Return the user from CI, git, or the operating system."""
        for name in _ACTORS:
            if named := os.environ.get(name):
                return named
        name_in_git = self._ask("config", "user.name")
        return name_in_git.strip() if name_in_git and name_in_git.strip() else getpass.getuser()

    def resolve(self, commit: str) -> str:
        """Return the full id of an abbreviated commit."""
        commit_hash = self._ask("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
        if commit_hash is None:
            gap = self.gap()
            raise CheckoutError(
                f"git has no commit {commit!r}" + (f": {gap}" if gap else ""),
                remedy="run `git log` to list the commits" if self.exists else "commit the project with git",
            )
        return commit_hash.strip()

    def file_at(self, commit: str, file: Path) -> str | None:
        """Return the text of a file at a commit; None if it did not exist."""
        return self._ask("show", f"{commit}:./{file.relative_to(self.root).as_posix()}")

    def files_at(self, commits: Sequence[str], file: Path) -> Iterator[str | None]:
        """Return a file's text at several commits with one git call; None where it did not exist."""
        name = f"./{file.relative_to(self.root).as_posix()}"
        requests = "".join(f"{commit}:{name}\n" for commit in commits)
        # Sizes are in bytes, line endings included.
        rest = self._raw("cat-file", "--batch", stdin=requests.encode()) or b""
        for _ in commits:
            header, _, rest = rest.partition(b"\n")
            kind, size = header.rpartition(b" ")[::2]
            if not kind.endswith(b" blob"):
                yield None  # `<name> missing`
                continue
            body, rest = rest[: int(size)], rest[int(size) + 1 :]
            yield _text(body)

    def write_files(self, commit: str, folder: Path) -> None:
        """Write the project's files at a commit into a folder, without changing the checkout or its index.

        Writes nothing if the project did not exist.
        """
        top, prefix = self._ask("rev-parse", "--show-toplevel"), self._ask("rev-parse", "--show-prefix")
        tree = f"{commit}:{(prefix or '').strip()}"
        if top is None or self._ask("rev-parse", "--verify", "--quiet", tree) is None:
            return
        with tempfile.TemporaryDirectory(prefix="tritonstack-") as index:
            variables = {"GIT_INDEX_FILE": str(Path(index) / "index")}
            # In a subfolder, git would write the subfolder of this index only.
            whole = Checkout(Path(top.rstrip("\n")))
            commands = (["read-tree", tree], ["checkout-index", "--all", "--quiet", f"--prefix={folder}/"])
            if any(whole._raw(*command, variables=variables) is None for command in commands):
                raise CheckoutError(
                    f"cannot read the files of commit {commit}",
                    remedy="run `git fsck`, and fix what it reports",
                )

    def gap(self) -> str | None:
        """Return why git's history may be incomplete; None if it is complete."""
        if self._ask("rev-parse", "--git-dir") is None:
            return "the project is not in git"
        if not self.exists:
            return "git has no commit yet"
        shallow = self._ask("rev-parse", "--is-shallow-repository")
        if shallow is None or shallow.strip() != "false":
            return "this is a shallow clone (run `git fetch --unshallow`)"
        return None

    def changed_since(self, commit: str, paths: Iterable[str]) -> list[str] | None:
        """Return the files below these paths that differ from a commit, sorted; None if git does not know it.

        Untracked files are ignored.
        """
        output = self._ask("diff", "--name-only", "--relative", commit, "--", *paths)
        return None if output is None else sorted(output.splitlines())

    def changes_of(self, file: Path, *, every_branch: bool = False) -> Iterator[Commit]:
        """Return the commits that changed a file, latest first: of merges the first parent only, or all
        commits."""
        output = self._ask(
            "log",
            "--full-history" if every_branch else "--first-parent",
            "--format=%H%x00%cd%x00%an%x00%s",
            "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
            "--",
            str(file.relative_to(self.root)),
        )
        # splitlines() is not used: names and subjects may contain characters that only Python treats as line
        # breaks.
        for line in filter(None, (output or "").split("\n")):
            commit, at, by, subject = line.split("\0")
            yield Commit(commit, at, by, subject)

    def _ask(self, *arguments: str) -> str | None:
        """Return git's output; None if the command fails."""
        output = self._raw(*arguments)
        return None if output is None else _text(output)

    def _raw(
        self, *arguments: str, stdin: bytes = b"", variables: Mapping[str, str] = MappingProxyType({})
    ) -> bytes | None:
        try:
            result = subprocess.run(
                ["git", "-C", str(self.root), *arguments],
                env={**os.environ, "TZ": "UTC", "LC_ALL": "C", **variables},
                input=stdin,
                capture_output=True,
                check=False,
            )
        except FileNotFoundError:
            return None  # git is not installed
        return result.stdout if result.returncode == 0 else None


def _text(output: bytes) -> str:
    return output.decode(errors="replace").replace("\r\n", "\n")
