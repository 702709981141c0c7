"""The error codes: a title and an explanation per code. Only `tritonstack explain` and the docs load them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tritonstack.reference.error_codes.artifacts import ARTIFACTS
from tritonstack.reference.error_codes.aws import AWS
from tritonstack.reference.error_codes.builds import BUILDS
from tritonstack.reference.error_codes.files import FILES
from tritonstack.reference.error_codes.kinds import Kind
from tritonstack.reference.error_codes.machine import MACHINE
from tritonstack.reference.error_codes.project import PROJECT
from tritonstack.reference.error_codes.usage import USAGE

__all__ = ["EXAMPLES", "GROUPS", "KINDS", "RETIRED", "UNUSED", "Kind"]

GROUPS: Mapping[str, Mapping[str, Kind]] = {
    "Content of one file": FILES,
    "Contradictions between project files": PROJECT,
    "Model builds": BUILDS,
    "Artifacts, locks, and promotion": ARTIFACTS,
    "AWS, deployments, and endpoints": AWS,
    "Local machine and local cloud": MACHINE,
    "Command line": USAGE,
}
"""The codes by group; TS1xx is the first group, TS2xx the second, and so on. The last one is TS9xx."""

KINDS: Mapping[str, Kind] = {code: kind for kinds in GROUPS.values() for code, kind in kinds.items()}

EXAMPLES = Path(__file__).with_name("examples.json")
"""An example per code and the message that it produces. Generated: `python -m tests.errors.page`."""

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
"""Codes of former kinds, by the code that took their place. A code never gets a second meaning."""

RETIRED: Mapping[str, str] = {old: code for code, former in _FORMER.items() for old in former.split()}

UNUSED: Mapping[str, str] = {"TS405": "Invalid seal", "TS419": "Another promotion is running"}
"""Codes of former kinds that no other took the place of, with their titles."""
