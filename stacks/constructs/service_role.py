"""A role that a service of AWS, or another account, takes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructs import Construct

from stacks.constructs.granted_role import GrantedRole
from stacks.constructs.grants import Conditions
from stacks.constructs.partition import partition_of


class ServiceRole(GrantedRole):
    """It may do what it is granted, and nothing else.

    `taken_on_by` are the services that take it on, each with the condition that says on whose behalf;
    `accounts` are those that may let their own principals take it on; then it needs a name to be found by.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        taken_on_by: Mapping[str, Conditions | None],
        description: str,
        policy_name: str,
        accounts: Sequence[str] = (),
        role_name: str | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            trust=[
                *(_trusted_service(*service) for service in taken_on_by.items()),
                *([_trusted_accounts(partition_of(scope), accounts)] if accounts else []),
            ],
            description=description,
            policy_name=policy_name,
            role_name=role_name,
        )


def _trusted_service(service: str, condition: Conditions | None) -> dict[str, object]:
    return {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
        **({"Condition": condition} if condition else {}),
    }


def _trusted_accounts(partition: str, accounts: Sequence[str]) -> dict[str, object]:
    roots = [f"arn:{partition}:iam::{account}:root" for account in accounts]
    return {"Effect": "Allow", "Principal": {"AWS": roots}, "Action": "sts:AssumeRole"}
