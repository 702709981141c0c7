"""Names of the resources that `cdk bootstrap` creates in an account and region.

The qualifier in the names separates bootstraps in one account and region: each has its own bucket and roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

CDK_QUALIFIER = "hnb659fds"
"""The CDK's default."""
_CDK_STACK = "CDKToolkit"

Qualifier = Annotated[str, Field(pattern=r"^[a-z0-9]{1,10}$")]
"""Characters that both the CDK and S3 bucket names allow."""
BootstrapRole = Literal["deploy", "file-publishing", "image-publishing", "lookup"]

POLICIES_PER_ROLE = 10
"""IAM's default quota of managed policies per role."""


@dataclass(frozen=True)
class Bootstrap:
    """Names of the bootstrap resources of one qualifier."""

    qualifier: str
    account: str
    region: str
    key: str | None = field(default=None, compare=False)
    """ARN of the bucket's KMS key, if it is not an AWS managed key."""

    @property
    def stack(self) -> str:
        """The bootstrap stack."""
        return _CDK_STACK if self.qualifier == CDK_QUALIFIER else f"{_CDK_STACK}-{self.qualifier}"

    @property
    def bucket(self) -> str:
        """The bucket of templates and files."""
        return f"cdk-{self.qualifier}-assets-{self.account}-{self.region}"

    @property
    def version_parameter(self) -> str:
        """The SSM parameter of the bootstrap version."""
        return f"/cdk-bootstrap/{self.qualifier}/version"

    def role(self, kind: BootstrapRole) -> str:
        """Return the name of a role that the CDK assumes."""
        return f"cdk-{self.qualifier}-{kind}-role-{self.account}-{self.region}"

    @property
    def arguments(self) -> Sequence[str]:
        """The arguments of `cdk bootstrap` that create it."""
        place = f"aws://{self.account}/{self.region}"
        key = ("--bootstrap-kms-key-id", self.key) if self.key else ()
        if self.qualifier == CDK_QUALIFIER:
            return (place, *key)
        return (place, "--qualifier", self.qualifier, "--toolkit-stack-name", self.stack, *key)

    @property
    def description(self) -> str:
        """Description for messages."""
        return f"account {self.account} in {self.region}, qualifier {self.qualifier}"
