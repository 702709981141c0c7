"""The scope of a resource: an account in a region. Names are unique within it."""

from __future__ import annotations

from dataclasses import dataclass

AWS_OWN_ACCOUNT = "000000999999"
"""The account of resources owned by AWS; it has no callers."""


@dataclass(frozen=True, order=True)
class Scope:
    """An account in a region."""

    account: str
    region: str

    @property
    def partition(self) -> str:
        """The AWS partition of the region."""
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource in this scope."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"
