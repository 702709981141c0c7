"""Error types of the project: what happened, where, and how to fix it.

    TritonstackError            exit 1: the operation failed
    └── UsageError              exit 2: invalid request
        └── InvalidFilesError   exit 2: invalid files, with all errors listed

Packages derive their own errors from TritonstackError. The command line prints them without a traceback;
--debug adds the traceback.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_LONGEST_FIELD = 200
_LONGEST_MESSAGE = 2000


class TritonstackError(Exception):
    """An operation failed. `message` says what and where, `remedy` how to fix it."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.where = ""
        """For failed builds: the model and the step."""

    def __str__(self) -> str:
        return f"{self.message}\n  help: {self.remedy}" if self.remedy else self.message


class UsageError(TritonstackError):
    """The request is invalid: an unknown name, a missing argument."""

    exit_code = 2


@dataclass(frozen=True, order=True)
class FileProblem:
    """An error in one file: location, message, and remedy."""

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
    """Shorten a text in the middle, and escape control characters for terminals."""
    half = longest // 2
    short = text if len(text) <= longest else f"{text[:half]} … {text[-half:]}"
    return "".join(
        one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode() for one in short
    )


def shown_path(path: Path) -> str:
    """Return a path as people type it: relative to the working directory if it is inside."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


class InvalidFilesError(UsageError):
    """One or more files are invalid. All errors are listed, in file order."""

    def __init__(self, problems: Iterable[FileProblem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (str(p.file), p.line or 0, p.field)))
        super().__init__("\n".join(str(problem) for problem in self.problems))
