"""How anything in this project goes wrong towards its user: what happened, where, and what to do about it.

    TritonstackError            exit 1: something failed while doing what was asked
    └── UsageError              exit 2: the request itself cannot be carried out as it was made
        └── InvalidFilesError   exit 2: files that break the rules of the catalog, every fault at once

Rooms derive their own errors from TritonstackError. The command line prints them and nothing else; a
traceback appears only with --debug.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_LONGEST_FIELD = 200
_LONGEST_MESSAGE = 2000


class TritonstackError(Exception):
    """Something failed. `message` says what and where, `remedy` what to do about it."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.where = ""
        """Of a build that failed: its model and its step."""

    def __str__(self) -> str:
        return f"{self.message}\n  help: {self.remedy}" if self.remedy else self.message


class UsageError(TritonstackError):
    """What was asked for cannot be done as it was asked: an unknown name, a missing argument."""

    exit_code = 2


@dataclass(frozen=True, order=True)
class FileProblem:
    """One fault in one file: where it stands, what was found there, and what to do."""

    file: Path
    line: int | None
    field: str
    message: str
    remedy: str | None = None

    def __str__(self) -> str:
        file = shown_path(self.file)
        place = file if self.line is None else f"{file}:{self.line}"
        subject = f"{_printable(self.field, _LONGEST_FIELD)}: " if self.field else ""
        text = f"{place}: {subject}{_printable(self.message, _LONGEST_MESSAGE)}"
        return f"{text}\n  help: {self.remedy}" if self.remedy else text


def _printable(text: str, longest: int) -> str:
    """Shorten a text in the middle, and escape what would disturb a terminal."""
    half = longest // 2
    short = text if len(text) <= longest else f"{text[:half]} … {text[-half:]}"
    return "".join(
        one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode() for one in short
    )


def shown_path(path: Path) -> str:
    """A path as people would type it: from the working directory, if it lies there."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


class InvalidFilesError(UsageError):
    """One or more files break the rules of the catalog. All faults are listed, in file order."""

    def __init__(self, problems: Iterable[FileProblem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (str(p.file), p.line or 0, p.field)))
        super().__init__("\n".join(str(problem) for problem in self.problems))
