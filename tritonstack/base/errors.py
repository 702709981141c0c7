"""Error types of the project: what happened, where, and how to fix it.

    TritonstackError            exit 1: the operation failed
    └── UsageError              exit 2: invalid request
        └── InvalidFilesError   exit 2: invalid files, with all errors listed

Packages derive their own errors from TritonstackError. The command line prints them without a traceback;
--debug adds the traceback.

Each kind of error has a code such as TS104, which never changes its meaning. One class has the code with a
title and an explanation, its docstring; others name it: `code = UnknownKeyError.code`. `code=` at a raise
overrides the code of the class. What is wrong in a file is not raised by itself but described by its class,
`UnknownKeyError.at(path, message, remedy)`, so that all violations are reported at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

FieldPath = tuple[str | int, ...]
"""Keys and list indices from the root of a document to a field."""
_LONGEST_FIELD = 200
_LONGEST_MESSAGE = 2000


class TritonstackError(Exception):
    """An operation failed. `message` says what and where, `remedy` how to fix it."""

    exit_code = 1
    code: str = ""
    """The code of its kind, such as TS601."""
    title: str = ""
    """The kind in a few words; in the class that describes the code."""
    violations: tuple[FileViolation, ...] = ()
    """What is wrong in files, each with a code of its own."""

    def __init__(self, message: str, *, remedy: str | None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if code is not None:
            self.code = code
        self.where = ""
        """For failed builds: the model and the step."""

    @classmethod
    def at(cls, path: FieldPath, message: str, remedy: str | None) -> Violation:
        """Describe an error of this kind in one field of a record."""
        return Violation(path, message, remedy, code=cls.code)

    @property
    def heading(self) -> str:
        """The start of a report: `error[TS601]`; plain `error` if each listed violation has a code."""
        return heading("" if self.violations else self.code)

    @property
    def coded_message(self) -> str:
        """The message, with the code of each violation in files."""
        return "\n".join(violation.coded() for violation in self.violations) or self.message

    def report(self) -> str:
        """Return the error with its codes and remedy as plain text."""
        text = f"{self.heading}: {self.coded_message}"
        return f"{text}\n  help: {self.remedy}" if self.remedy else text

    def __str__(self) -> str:
        return f"{self.message}\n  help: {self.remedy}" if self.remedy else self.message


def heading(code: str) -> str:
    """Return the start of a report: `error[TS601]`; plain `error` if each listed violation has a code."""
    return "error" if code in ("", InvalidFilesError.code) else f"error[{code}]"


ErrorKind = type[TritonstackError] | TritonstackError
"""A class of errors, or an error whose code a report repeats."""


class UsageError(TritonstackError):
    """The request is invalid: an unknown name, a missing argument."""

    exit_code = 2


@dataclass(frozen=True)
class Violation:
    """An error in one field of a record, given the other fields."""

    path: FieldPath
    """Path from the record to the field to change."""
    message: str
    remedy: str | None
    _: KW_ONLY
    code: str


@dataclass(frozen=True, order=True)
class FileViolation:
    """An error in one file: location, message, and remedy."""

    file: Path
    line: int | None
    field: str
    message: str
    remedy: str | None
    _: KW_ONLY
    code: str

    def __str__(self) -> str:
        return self._text("")

    def coded(self) -> str:
        """Return the violation with its code at the end of the message: `dev.yaml:3: unknown key [TS104]`."""
        return self._text(f" [{self.code}]")

    def _text(self, code: str) -> str:
        file = shown_path(self.file)
        place = file if self.line is None else f"{file}:{self.line}"
        subject = f"{_printable(self.field, _LONGEST_FIELD)}: " if self.field else ""
        text = f"{place}: {subject}{_printable(self.message, _LONGEST_MESSAGE)}{code}"
        return f"{text}\n  help: {self.remedy}" if self.remedy else text


def _printable(text: str, longest: int) -> str:
    """Shorten a text in the middle, and escape control characters for terminals."""
    half = longest // 2
    short = text if len(text) <= longest else f"{text[:half]} … {text[-half:]}"
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else character.encode("unicode_escape").decode()
        for character in short
    )


def shown_path(path: Path) -> str:
    """Return a path as people type it: relative to the working directory if it is inside."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


class InvalidFilesError(UsageError):
    """One or more project files are invalid. Each listed problem has a code of its own at the end of its
    message; this code appears only in JSON output and in the reports of builds.
    """

    code = "TS100"
    title = "Invalid files"

    def __init__(self, violations: Iterable[FileViolation]) -> None:
        self.violations = tuple(sorted(violations, key=lambda p: (str(p.file), p.line or 0, p.field)))
        super().__init__("\n".join(str(violation) for violation in self.violations), remedy=None)


def reject(violations: Iterable[FileViolation]) -> None:
    """Raise InvalidFilesError if there are any violations."""
    if listed := list(violations):
        raise InvalidFilesError(listed)


def aws_error_code(error: BaseException) -> str:
    """Return the code of an AWS SDK's error, such as NoSuchBucket; empty if AWS was not reached."""
    return str(_aws_details(error).get("Code", ""))


def aws_error_message(error: BaseException) -> str:
    """Return AWS's message from an AWS SDK's error; empty if AWS was not reached."""
    return str(_aws_details(error).get("Message", ""))


def _aws_details(error: BaseException) -> Mapping[str, Any]:
    """Return what AWS answered. The SDK is not imported: only some layers may call AWS."""
    response: Mapping[str, Any] = getattr(error, "response", None) or {}  # None if no response came
    details: Mapping[str, Any] = response.get("Error", {})
    return details


def closest(word: str, words: Iterable[str]) -> str | None:
    """Return the known word that a misspelled word most likely means."""
    matches = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggest(word: str, words: Iterable[str], otherwise: str) -> str:
    """Return the remedy for an unknown word: the one that it most likely means, or else this advice."""
    nearest = closest(word, words)
    return f"did you mean '{nearest}'?" if nearest else otherwise
