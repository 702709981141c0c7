"""Trust policies that let the jobs of one GitHub repository assume the delivery roles, without stored keys.

GitHub signs a token per job. STS compares its claims with these conditions, case-sensitively.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

ISSUER = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"


def provider_arn(*, partition: str, account: str) -> str:
    """Return the ARN of GitHub's OIDC provider; an account has at most one."""
    return f"arn:{partition}:iam::{account}:oidc-provider/{ISSUER}"


def github_trust(provider: str, *, subjects: Sequence[str], ref: str | None = None) -> Mapping[str, object]:
    """Trust jobs with one of these subjects; with a `ref`, only jobs that run on it.

    A job with a GitHub environment has that environment in its subject instead of its branch, so the branch
    is checked as a separate claim.
    """
    claims = {"aud": AUDIENCE, "sub": list(subjects)} | ({"ref": ref} if ref else {})
    return {
        "Effect": "Allow",
        "Principal": {"Federated": provider},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": {f"{ISSUER}:{claim}": value for claim, value in claims.items()}},
    }


def role_trust(*, partition: str, account: str, role: str) -> Mapping[str, object]:
    """Trust one role of another account, by name: it may not exist yet."""
    return {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:{partition}:iam::{account}:root"},
        "Action": "sts:AssumeRole",
        "Condition": {"ArnEquals": {"aws:PrincipalArn": f"arn:{partition}:iam::{account}:role/{role}"}},
    }


def github_provider(scope: Construct, construct_id: str) -> iam.CfnOIDCProvider:
    """Create GitHub's OIDC provider. AWS validates its certificate, so no thumbprint is needed."""
    scope = Construct(scope, construct_id)
    return iam.CfnOIDCProvider(scope, "Provider", url=f"https://{ISSUER}", client_id_list=[AUDIENCE])
