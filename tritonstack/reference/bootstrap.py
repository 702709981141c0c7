"""What `cdk bootstrap` makes in an account and region, by name.

The qualifier in the names tells it from what else was bootstrapped there. Whoever deploys with another one
publishes to another bucket, with other roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

CDK_QUALIFIER = "hnb659fds"
"""The CDK's own."""
_CDK_STACK = "CDKToolkit"

Qualifier = Annotated[str, Field(pattern=r"^[a-z0-9]{1,10}$")]
"""What the CDK takes as one, and S3 in the name of a bucket."""
BootstrapRole = Literal["deploy", "file-publishing", "image-publishing", "lookup"]

POLICIES_PER_ROLE = 10
"""Managed policies that IAM attaches to a role unless its quota was raised."""


@dataclass(frozen=True)
class Bootstrap:
    """The names of what was bootstrapped under one qualifier."""

    qualifier: str
    account: str
    region: str
    key: str | None = field(default=None, compare=False)
    """ARN of the KMS key that its bucket is encrypted with, where that is not a key of AWS's own."""

    @property
    def stack(self) -> str:
        """The stack that holds all of it."""
        return _CDK_STACK if self.qualifier == CDK_QUALIFIER else f"{_CDK_STACK}-{self.qualifier}"

    @property
    def bucket(self) -> str:
        """Where templates and files are published."""
        return f"cdk-{self.qualifier}-assets-{self.account}-{self.region}"

    @property
    def version_parameter(self) -> str:
        """The parameter that says which version of it stands."""
        return f"/cdk-bootstrap/{self.qualifier}/version"

    def role(self, kind: BootstrapRole) -> str:
        """A role that the CDK takes on."""
        return f"cdk-{self.qualifier}-{kind}-role-{self.account}-{self.region}"

    @property
    def arguments(self) -> Sequence[str]:
        """What `cdk bootstrap` is told to make it."""
        place = f"aws://{self.account}/{self.region}"
        key = ("--bootstrap-kms-key-id", self.key) if self.key else ()
        if self.qualifier == CDK_QUALIFIER:
            return (place, *key)
        return (place, "--qualifier", self.qualifier, "--toolkit-stack-name", self.stack, *key)

    @property
    def words(self) -> str:
        """Name it in a message."""
        return f"account {self.account} in {self.region}, qualifier {self.qualifier}"
