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

__all__ = ["EXAMPLES", "GROUPS", "KINDS", "RETIRED", "Kind"]

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

RETIRED: Mapping[str, str] = {"TS405": "Invalid seal", "TS419": "Another promotion is running"}
"""Codes of former kinds with their titles. A code never gets a second meaning."""
