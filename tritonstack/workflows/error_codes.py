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

_FORMER = {
    "TS101": "TS118",
    "TS102": "TS103 TS105",
    "TS106": "TS107",
    "TS111": "TS108 TS109 TS110 TS112 TS113",
    "TS114": "TS115 TS116 TS117 TS123",
    "TS119": "TS120 TS207 TS210",
    "TS121": "TS122",
    "TS201": "TS202 TS205",
    "TS204": "TS203 TS220",
    "TS206": "TS208",
    "TS209": "TS211 TS215 TS331",
    "TS214": "TS329 TS355 TS356",
    "TS219": "TS218",
    "TS303": "TS221",
    "TS304": "TS315 TS344 TS351 TS368 TS376",
    "TS306": "TS307 TS308 TS350 TS367 TS369 TS370 TS380",
    "TS309": "TS216 TS320 TS330",
    "TS311": "TS357",
    "TS312": "TS313 TS352",
    "TS316": "TS317 TS328 TS343",
    "TS318": "TS212 TS213",
    "TS319": "TS358 TS375",
    "TS323": "TS324",
    "TS325": "TS512",
    "TS326": "TS327 TS333",
    "TS340": "TS341 TS342 TS345",
    "TS402": "TS407",
    "TS403": "TS404 TS406 TS412",
    "TS409": "TS411 TS415",
    "TS410": "TS414 TS416",
    "TS413": "TS420",
    "TS421": "TS422",
    "TS501": "TS502",
    "TS503": "TS518",
    "TS513": "TS520",
    "TS515": "TS516",
    "TS542": "TS545",
    "TS543": "TS625 TS626 TS627",
    "TS546": "TS547",
    "TS549": "TS550 TS551",
    "TS601": "TS602 TS606 TS607",
    "TS604": "TS605",
    "TS611": "TS609 TS610 TS614",
    "TS616": "TS321 TS613",
    "TS901": "TS904 TS905 TS907",
    "TS908": "TS910",
    "TS909": "TS911",
    "TS912": "TS913",
    "TS914": "TS915 TS917",
    "TS916": "TS918 TS919",
}
FORMER: Mapping[str, str] = {old: code for code, former in _FORMER.items() for old in former.split()}
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
