"""A managed IAM policy whose size is checked when the stack is synthesized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

from tritonstack.constructs.iam.granted_role import policy_document
from tritonstack.constructs.iam.policy_sizes import MANAGED_POLICY, check_policy_size


def managed_policy(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    description: str,
    statements: Sequence[Mapping[str, object]],
) -> iam.CfnManagedPolicy:
    """Create a managed policy; reject one that exceeds IAM's size limit."""
    document = policy_document(statements)
    check_policy_size(f"the policy {name!r}", document, limit=MANAGED_POLICY)
    return iam.CfnManagedPolicy(
        scope, construct_id, managed_policy_name=name, description=description, policy_document=document
    )
