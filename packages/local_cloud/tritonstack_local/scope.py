"""The scope of a resource, an account in a region, within which names are unique; and who calls from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

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


CALLER = "tritonstack.caller"
"""Where the guard (access/guard.py) puts the signer of a request that it admits."""


class Caller(NamedTuple):
    """The signer of a request, with service and region."""

    key_id: str
    account: str
    principal: str
    region: str
    service: str

    @property
    def scope(self) -> Scope:
        """The scope that the caller acts in."""
        return Scope(self.account, self.region)


def caller_of(environ: WSGIEnvironment) -> Caller:
    """Return the signer of a request that the guard admitted."""
    caller: Caller = environ[CALLER]
    return caller
