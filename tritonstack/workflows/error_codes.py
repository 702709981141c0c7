"""Look up error codes: what causes an error, and how to fix it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tritonstack.base.errors import UsageError
from tritonstack.base.files import read_json
from tritonstack.base.results import Internal, public
from tritonstack.reference.error_codes import EXAMPLES, GROUPS, KINDS, RETIRED, UNUSED


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
    """Explain an error code, in any case and with or without brackets; a former one by its present code."""
    requested = code.strip("[]").upper()
    present = RETIRED.get(requested, requested)
    kind = KINDS.get(present)
    if kind is None:
        raise _unknown_code(requested)
    example = read_json(EXAMPLES)[present]
    return ExplainedCode(present, kind.title, kind.explanation, example["example"], example["message"])


def _unknown_code(code: str) -> UsageError:
    if code in UNUSED:
        return UsageError(
            f"{code} ({UNUSED[code]}) is no longer used",
            remedy="see the changelog for the version that removed it",
            code="TS903",
        )
    return UsageError(
        f"unknown error code {code!r}",
        remedy="write a code such as TS104; `tritonstack explain` lists all",
        code="TS903",
    )
