"""Instance families that SageMaker offers for endpoints, by region.

AWS publishes this only in its price list; a test compares the table with the price list in cfn-lint. Families
without a price in any region are not judged: they are newer than the list, or no longer sold to new
customers.
"""

from __future__ import annotations

from tritonstack.facts.hardware import FAMILIES, InstanceType

_FIFTH = "m5 m5d r5 r5d c5 c5d"
_FIRST = f"t2 m4 c4 {_FIFTH} c6i"
_SIXTH = "c6i m6i r6i"
_SEVENTH = "c7i m7i r7i"

_OFFERED = {
    "af-south-1": f"{_FIFTH} g4dn",
    "ap-east-1": f"{_FIFTH} g4dn g5",
    "ap-east-2": f"{_SIXTH} {_SEVENTH}",
    "ap-northeast-1": f"{_FIRST} {_SEVENTH} g4dn g5 g6 g6e g7e p4d p4de p5 p5en",
    "ap-northeast-2": f"{_FIRST} g4dn g5 g6 g6e g7e p4d",
    "ap-northeast-3": f"{_FIFTH} g4dn g6e",
    "ap-south-1": f"{_FIRST} g4dn g5 g6 g6e p4d p5 p5en p6-b200",
    "ap-south-2": _FIFTH,
    "ap-southeast-1": f"{_FIRST} g4dn g5 p4d",
    "ap-southeast-2": f"{_FIRST} g4dn g5 g6 p4d p5",
    "ap-southeast-3": f"{_FIFTH} g5 p5en",
    "ap-southeast-4": _FIFTH,
    "ap-southeast-5": f"{_SIXTH} g6",
    "ap-southeast-6": f"{_SIXTH} {_SEVENTH}",
    "ap-southeast-7": f"{_SIXTH} {_SEVENTH}",
    "ca-central-1": f"{_FIRST} g4dn g5 g6 p4d p5",
    "ca-west-1": "m5 m5d r5 c5 c6i",
    "eu-central-1": f"t2 m4 c4 {_FIFTH} g4dn g5 g6 g6e g7 g7e p4d p4de",
    "eu-central-2": f"{_FIFTH} g6",
    "eu-north-1": f"{_FIFTH} {_SEVENTH} g4dn g5 g6 g7 p5en",
    "eu-south-1": f"{_FIFTH} g4dn",
    "eu-south-2": f"{_FIFTH} {_SEVENTH} g6 g6e g7 g7e p5en",
    "eu-west-1": f"{_FIRST} {_SEVENTH} g4dn g5 g6 p4d",
    "eu-west-2": f"{_FIRST} g4dn g5 g6 g7e p4d p5",
    "eu-west-3": f"t2 {_FIFTH} c6i g4dn g6",
    "il-central-1": f"{_FIFTH} c6i g5",
    "me-central-1": f"{_FIFTH} g5",
    "me-south-1": f"{_FIFTH} g4dn",
    "mx-central-1": f"{_SIXTH} {_SEVENTH}",
    "sa-east-1": f"{_FIRST} g4dn g5 g6 p4d p5",
    "us-east-1": f"{_FIRST} {_SEVENTH} g4dn g5 g6 g6e g7 g7e p4d p4de p5 p5en p6-b200 p6-b300",
    "us-east-2": f"{_FIRST} {_SEVENTH} g4dn g5 g6 g6e g7 g7e p4d p5 p5en",
    "us-west-1": f"{_FIRST} g4dn p5en",
    "us-west-2": f"{_FIRST} {_SEVENTH} g4dn g5 g6 g6e g7 g7e p4d p4de p5 p5en p6-b300",
}

OFFERED: dict[str, tuple[str, ...]] = {
    region: tuple(families.split()) for region, families in _OFFERED.items()
}
"""Families that run Triton, by region."""

_PRICED = frozenset(family for families in OFFERED.values() for family in families)


def may_offer(region: str, family: str) -> bool:
    """Check whether a region may offer a family: AWS has a price there, or has no price for it anywhere."""
    return family in OFFERED[region] or family not in _PRICED


def unoffered(region: str, instance: InstanceType) -> tuple[str, str] | None:
    """Return that a region has no price for an instance type, and what to use there; None if it may offer it.

    Regions without a price list are not judged.
    """
    if region not in OFFERED or may_offer(region, instance.family.name):
        return None
    alike = [
        family
        for family in OFFERED[region]
        if bool(FAMILIES[family].gpu) == bool(instance.gpus) and not FAMILIES[family].burstable
    ]
    return (
        f"{instance.name} endpoints are not in AWS's price list for {region}, so they are not available "
        "there",
        f"available families in {region}: {', '.join(alike)}" if alike else "choose another region",
    )
