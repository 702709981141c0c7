"""A role that a service of AWS, or another account, takes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.grants import Conditions, Grant
from stacks.constructs.partition import partition_of


class ServiceRole(Construct):
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
        super().__init__(scope, construct_id)
        role = iam.CfnRole(
            self,
            "Role",
            role_name=role_name,
            description=description,
            assume_role_policy_document=_document(
                [
                    *(_trusted_service(*service) for service in taken_on_by.items()),
                    *([_trusted_accounts(partition_of(self), accounts)] if accounts else []),
                ]
            ),
        )
        self.arn = role.attr_arn
        self.policy = iam.CfnPolicy(
            self, "Policy", policy_name=policy_name, policy_document=_document([]), roles=[role.ref]
        )
        self._statements: list[dict[str, object]] = []
        self._reasons: dict[str, list[str]] = {}

    def allow(self, grants: Iterable[Grant]) -> None:
        """Add to what the role may do."""
        patterns: dict[str, None] = {}
        for grant in grants:
            self._statements.append(grant.statement())
            if grant.because is not None:
                for pattern in (resource for resource in grant.resources if "*" in resource):
                    self._reasons.setdefault(pattern, []).append(grant.because)
                    patterns[pattern] = None
        self.policy.policy_document = _document(self._statements)
        for pattern in patterns:
            self._acknowledge(pattern)

    def _acknowledge(self, pattern: str) -> None:
        """Tell whoever audits the role why it has a pattern; all reasons at once, for the last one counts."""
        shown = (
            _flattened(cdk.Stack.of(self).resolve(pattern)) if cdk.Token.is_unresolved(pattern) else pattern
        )
        cdk.Validations.of(self).acknowledge(
            cdk.Acknowledgment(
                id=f"AwsSolutions::AwsSolutions-IAM5[Resource::{shown}]",
                reason="; and ".join(dict.fromkeys(self._reasons[pattern])),
            )
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


def _document(statements: list[dict[str, object]]) -> dict[str, object]:
    return {"Version": "2012-10-17", "Statement": statements}


def _flattened(value: Any) -> str:
    """Text that only the deploy completes, as cdk-nag writes it: arn:<AWS::Partition>:s3:::<Bucket>/*."""
    match value:
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(_flattened, parts))
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
    return str(value)
