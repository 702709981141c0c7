"""A role that a service of AWS, or another account, takes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructs import Construct

from tritonstack.constructs.iam.granted_role import GrantedRole
from tritonstack.constructs.iam.grants import Conditions, Home


class ServiceRole(GrantedRole):
    """It may do what it is granted, and nothing else.

    `taken_on_by` are the services that take it on, each with what its request must show beside this account;
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
        home = Home.of(scope)
        super().__init__(
            scope,
            construct_id,
            trust=[
                *(_trusted_service(home, *service) for service in taken_on_by.items()),
                *([_trusted_accounts(home.partition, accounts)] if accounts else []),
            ],
            description=description,
            policy_name=policy_name,
            role_name=role_name,
        )


NAMES_NO_SOURCE = frozenset({"cloudformation.amazonaws.com"})
"""Services that do not document aws:SourceAccount for the roles that they assume. Who may pass such a role to
them is limited by iam:PassRole instead."""


def _trusted_service(home: Home, service: str, condition: Conditions | None) -> dict[str, object]:
    """Trust a service that acts for this account; other accounts could use it as a confused deputy."""
    conditions = dict(condition or {})
    if service not in NAMES_NO_SOURCE:
        own = {"aws:SourceAccount": home.account}
        conditions["StringEquals"] = {**conditions.get("StringEquals", {}), **own}
    return {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
        **({"Condition": conditions} if conditions else {}),
    }


def _trusted_accounts(partition: str, accounts: Sequence[str]) -> dict[str, object]:
    roots = [f"arn:{partition}:iam::{account}:root" for account in accounts]
    return {"Effect": "Allow", "Principal": {"AWS": roots}, "Action": "sts:AssumeRole"}
