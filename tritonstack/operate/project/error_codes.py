"""Look up error codes: what causes an error, and how to fix it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonstack.base.error_kinds import UnknownNameError
from tritonstack.base.files import read_json
from tritonstack.base.results import Internal, public

GENERATED = Path(__file__).with_suffix(".json")
"""Title, explanation, and example of each code. `python -m tests.errors.page` writes it from the classes."""

GROUPS = {
    "TS1": "Content of one file",
    "TS2": "Contradictions between project files",
    "TS3": "Model builds",
    "TS4": "Artifacts, locks, and promotion",
    "TS5": "AWS, deployments, and endpoints",
    "TS6": "Local machine and local cloud",
    "TS9": "Command line",
}
"""What the codes with the same first digit are about."""

FORMER: Mapping[str, str] = {
    former: code
    for code, codes in read_json(Path(__file__).with_name("former_codes.json")).items()
    for former in codes
}
"""Former codes, each with the one that took its place. A code never gets a second meaning."""

UNUSED = {"TS405": "Invalid seal", "TS419": "Another promotion is running"}
"""Former codes that no other took the place of, with their titles."""


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
        {
            group: {code: kind["title"] for code, kind in _kinds().items() if code.startswith(digit)}
            for digit, group in GROUPS.items()
        }
    )


def explain_code(code: str) -> ExplainedCode:
    """Explain an error code, in any case and with or without brackets; a former one by its present code."""
    requested = code.strip("[]").upper()
    present = FORMER.get(requested, requested)
    if kind := _kinds().get(present):
        return ExplainedCode(code=present, **kind)
    if requested in UNUSED:
        raise UnknownNameError(
            f"{requested} ({UNUSED[requested]}) is no longer used",
            remedy="see the changelog for the version that removed it",
        )
    raise UnknownNameError(
        f"unknown error code {requested!r}",
        remedy="write a code such as TS104; `tritonstack explain` lists all",
    )


def _kinds() -> dict[str, dict[str, Any]]:
    kinds: dict[str, dict[str, Any]] = read_json(GENERATED)
    return kinds
