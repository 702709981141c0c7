"""Rules of security groups, as CloudFormation spells them and as the EC2 API takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INGRESS_MEMBERS = {
    "CidrIp": None,
    "CidrIpv6": None,
    "Description": None,
    "FromPort": None,
    "IpProtocol": None,
    "SourcePrefixListId": None,
    "SourceSecurityGroupId": None,
    "ToPort": None,
}
EGRESS_MEMBERS = {name.replace("Source", "Destination"): None for name in INGRESS_MEMBERS}
# The rule that a group is made with, and has as long as the template gives it no other.
EVERYTHING_OUT = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}

_RANGES = {
    "CidrIp": ("IpRanges", "CidrIp"),
    "CidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
    "PrefixListId": ("PrefixListIds", "PrefixListId"),
    "SecurityGroupId": ("UserIdGroupPairs", "GroupId"),
}


def permission(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return one rule of a template as the API takes it."""
    plain = {key.removeprefix("Source").removeprefix("Destination"): value for key, value in rule.items()}
    made: dict[str, Any] = {"IpProtocol": str(plain["IpProtocol"])}
    for port in ("FromPort", "ToPort"):
        if port in plain:
            made[port] = int(plain[port])
    about = {"Description": plain["Description"]} if "Description" in plain else {}
    for name, (ranges, member) in _RANGES.items():
        if name in plain:
            made[ranges] = [{member: plain[name], **about}]
    return made
