"""Look up error codes: what causes an error, and how to fix it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tritonstack.base.errors import UsageError
from tritonstack.base.files import read_json
from tritonstack.base.results import Internal, public
from tritonstack.reference.error_codes import EXAMPLES, GROUPS, KINDS, RETIRED


@dataclass(frozen=True)
class ExplainedCode:
    """One error code with an example."""

    code: str
    title: str
    explanation: str
    example: str
    """What someone did to get the error."""
    message: str
    """The message that the example produces."""


@dataclass(frozen=True)
class ErrorCodes:
    """All error codes."""

    groups: Internal[Mapping[str, Mapping[str, str]]]
    """Group -> code -> title."""

    @public
    def codes(self) -> dict[str, str]:
        """The title of each code."""
        return {code: title for titles in self.groups.values() for code, title in titles.items()}


def list_codes() -> ErrorCodes:
    """Return all error codes by group."""
    return ErrorCodes(
        {group: {code: kind.title for code, kind in kinds.items()} for group, kinds in GROUPS.items()}
    )


def explain_code(code: str) -> ExplainedCode:
    """Explain an error code, in any case and with or without brackets; raises UsageError if it is unknown."""
    requested = code.strip("[]").upper()
    kind = KINDS.get(requested)
    if kind is None:
        raise _unknown_code(requested)
    found = read_json(EXAMPLES)[requested]
    return ExplainedCode(requested, kind.title, kind.explanation, found["example"], found["message"])


def _unknown_code(code: str) -> UsageError:
    if code in RETIRED:
        return UsageError(
            f"{code} ({RETIRED[code]}) is no longer used",
            remedy="see the changelog for the version that removed it",
            code="TS903",
        )
    return UsageError(
        f"unknown error code {code!r}",
        remedy="write a code such as TS104; `tritonstack explain` lists all",
        code="TS903",
    )
