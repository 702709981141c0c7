"""Create an IAM role for an AWS service or another account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructs import Construct

from tritonstack.constructs.iam.granted_role import GrantedRole
from tritonstack.constructs.iam.grants import AwsScope, Conditions


class ServiceRole(GrantedRole):
    """Create a role with explicit grants only.

    `assumed_by` maps each trusted service to its conditions beside the source account. `accounts` are the
    trusted accounts; a role for them needs a `role_name`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        assumed_by: Mapping[str, Conditions | None],
        description: str,
        policy_name: str,
        accounts: Sequence[str] = (),
        role_name: str | None = None,
    ) -> None:
        aws = AwsScope.of(scope)
        super().__init__(
            scope,
            construct_id,
            trust=[
                *(_trusted_service(aws, *service) for service in assumed_by.items()),
                *([_trusted_accounts(aws.partition, accounts)] if accounts else []),
            ],
            description=description,
            policy_name=policy_name,
            role_name=role_name,
        )


NAMES_NO_SOURCE = frozenset({"cloudformation.amazonaws.com"})
"""Services that do not document aws:SourceAccount for the roles that they assume; iam:PassRole limits their
use instead."""


def _trusted_service(aws: AwsScope, service: str, condition: Conditions | None) -> dict[str, object]:
    """Trust a service that acts for this account only, to prevent the confused deputy problem."""
    conditions = dict(condition or {})
    if service not in NAMES_NO_SOURCE:
        source_account = {"aws:SourceAccount": aws.account}
        conditions["StringEquals"] = {**conditions.get("StringEquals", {}), **source_account}
    return {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
        **({"Condition": conditions} if conditions else {}),
    }


def _trusted_accounts(partition: str, accounts: Sequence[str]) -> dict[str, object]:
    roots = [f"arn:{partition}:iam::{account}:root" for account in accounts]
    return {"Effect": "Allow", "Principal": {"AWS": roots}, "Action": "sts:AssumeRole"}
