"""Record in a template why a checkov rule does not apply to a resource.

cdk-nag rules are acknowledged through `cdk.Validations`, which checkov does not read.
"""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from constructs import IConstruct


def skip_check(construct: IConstruct, check: str, *, because: str) -> None:
    """Skip a checkov rule for one resource and record the reason."""
    resource = cast("cdk.CfnResource", construct.node.default_child or construct)
    skipped = (resource.get_metadata("checkov") or {}).get("skip", [])
    resource.add_metadata("checkov", {"skip": [*skipped, {"id": check, "comment": because}]})
