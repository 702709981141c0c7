"""All examples of errors, and the codes that have none."""

from __future__ import annotations

from tests.errors.examples import aws, builds, files
from tests.errors.examples.base import EXAMPLES, Example, show

__all__ = ["EXAMPLES", "HOW_ELSE", "Example", "show"]

assert all((aws, builds, files))

HOW_ELSE = {
    "TS417": "`tritonstack promote` before the artifact has run in the source for `soaked_hours`.",
    "TS506": "A change of an endpoint's name while the old endpoint is in service.",
}
"""How codes arise whose examples would need a deployment."""
