"""Says in a template why a rule of checkov does not apply to a resource.

The rules of cdk-nag are acknowledged through `cdk.Validations`, which checkov does not read.
"""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from constructs import IConstruct


def skip_check(construct: IConstruct, check: str, *, because: str) -> None:
    """Leave a rule of checkov out for one resource, with the reason, for whoever audits the template."""
    resource = cast("cdk.CfnResource", construct.node.default_child or construct)
    skipped = (resource.get_metadata("checkov") or {}).get("skip", [])
    resource.add_metadata("checkov", {"skip": [*skipped, {"id": check, "comment": because}]})
