"""Create an IAM role with explicit grants only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

from tritonstack.base.error_kinds import ConstructError
from tritonstack.constructs.iam.grants import AwsScope, Conditions, Grant

# Check IAM policy sizes at synthesis.
#
# IAM rejects larger policies only at deployment. White space does not count:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html


MANAGED_POLICY = 6_144
INLINE_POLICIES = 10_240
"""The limit for all inline policies of one role together."""
TRUST_POLICY = 2_048
"""The default quota; AWS raises it on request."""


def policy_size(document: Mapping[str, object]) -> int:
    """Return the number of characters that IAM counts."""
    return len(json.dumps(document, separators=(",", ":"), ensure_ascii=False))


def check_policy_size(subject: str, document: Mapping[str, object], *, limit: int) -> None:
    """Reject a policy that exceeds IAM's size limit."""
    size = policy_size(document)
    if size > limit:
        raise ConstructError(
            f"{subject} has {size:,} characters; IAM allows at most {limit:,}",
            remedy="shorten name, name_prefix, permissions_boundary, or the values of the tags project and "
            "environment; or split the environment",
        )


class GrantedRole(Construct):
    """Create a role; `trust` holds its trust statements, `role_name` its name if others refer to it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        trust: Sequence[Mapping[str, object]],
        description: str,
        policy_name: str,
        role_name: str | None = None,
        session_hours: int | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        trusted = policy_document(trust)
        check_policy_size(f"the trust policy of {self.node.path}", trusted, limit=TRUST_POLICY)
        role = iam.CfnRole(
            self,
            "Role",
            role_name=role_name,
            description=description,
            assume_role_policy_document=trusted,
            max_session_duration=session_hours * 3600 if session_hours else None,
        )
        self.arn, self.name = role.attr_arn, role.ref
        self.policy = iam.CfnPolicy(
            self, "Policy", policy_name=policy_name, policy_document=policy_document([]), roles=[role.ref]
        )
        self._statements: list[Mapping[str, object]] = []
        self._resolved: list[Any] = []
        """The statements with their tokens resolved: equal lists of tokens differ."""
        self._reasons: dict[str, list[str]] = {}

    def allow(self, grants: Iterable[Grant]) -> None:
        """Add grants to the role's policy, each once."""
        patterns: dict[str, None] = {}
        for grant in grants:
            statement = grant.statement()
            if (resolved := cdk.Stack.of(self).resolve(statement)) not in self._resolved:
                self._statements.append(statement)
                self._resolved.append(resolved)
            if grant.because is not None:
                for pattern in (resource for resource in grant.resources if "*" in resource):
                    self._reasons.setdefault(pattern, []).append(grant.because)
                    patterns[pattern] = None
        document = policy_document(self._statements)
        check_policy_size(f"the policy of {self.node.path}", document, limit=INLINE_POLICIES)
        self.policy.policy_document = document
        for pattern in patterns:
            explain_pattern(self, pattern, because="; and ".join(dict.fromkeys(self._reasons[pattern])))


def explain_pattern(construct: IConstruct, pattern: str, *, because: str) -> None:
    """Record why a role needs a wildcard, for auditors; pass all reasons at once, because the last call
    wins."""
    text = (
        _flattened(cdk.Stack.of(construct).resolve(pattern)) if cdk.Token.is_unresolved(pattern) else pattern
    )
    explain_wildcard(construct, f"Resource::{text}", because=because)


def explain_wildcard(construct: IConstruct, wildcard: str, *, because: str) -> None:
    """Record why statements below a construct need a wildcard, such as `Action::s3:*`."""
    cdk.Validations.of(construct).acknowledge(
        cdk.Acknowledgment(id=f"AwsSolutions::AwsSolutions-IAM5[{wildcard}]", reason=because)
    )


def policy_document(statements: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the statements as an IAM policy document."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _flattened(value: Any) -> str:
    """Render unresolved tokens as cdk-nag writes them: arn:<AWS::Partition>:s3:::<Bucket>/*."""
    match value:
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(_flattened, parts))
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
    return str(value)


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
