"""Where something lives: an account in a region. Names are unique within it."""

from __future__ import annotations

from dataclasses import dataclass

AWS_OWN_ACCOUNT = "000000999999"
"""Where this cloud keeps what AWS keeps in accounts of its own; nobody calls from there."""


@dataclass(frozen=True, order=True)
class Place:
    """An account in a region."""

    account: str
    region: str

    @property
    def partition(self) -> str:
        """The part of AWS that the region belongs to."""
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"

    def arn(self, service: str, resource: str) -> str:
        """Build the ARN of a service's resource here."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"
