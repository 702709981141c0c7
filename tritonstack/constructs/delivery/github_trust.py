"""Who takes on the roles of those who carry changes: jobs of one repository on GitHub, without stored keys.

GitHub signs a token for each job. STS holds its claims against what stands here, letter by letter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

ISSUER = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"


def provider_arn(*, partition: str, account: str) -> str:
    """The provider of GitHub's tokens; an account has at most one."""
    return f"arn:{partition}:iam::{account}:oidc-provider/{ISSUER}"


def github_trust(provider: str, *, subjects: Sequence[str], ref: str | None = None) -> Mapping[str, object]:
    """Jobs with one of these subjects; with a `ref`, only those that run on it.

    A job that names a GitHub environment has that in its subject in place of its branch, whatever branch it
    runs on: the branch is a claim of its own then.
    """
    claims = {"aud": AUDIENCE, "sub": list(subjects)} | ({"ref": ref} if ref else {})
    return {
        "Effect": "Allow",
        "Principal": {"Federated": provider},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": {f"{ISSUER}:{claim}": value for claim, value in claims.items()}},
    }


def role_trust(*, partition: str, account: str, role: str) -> Mapping[str, object]:
    """One role of another account, by its name: it need not be there yet."""
    return {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:{partition}:iam::{account}:root"},
        "Action": "sts:AssumeRole",
        "Condition": {
            "ArnEquals": {"aws:PrincipalArn": f"arn:{partition}:iam::{account}:role/{role}"},
        },
    }


class GithubProvider(Construct):
    """Tells an account of GitHub's tokens. AWS checks their keys by itself: no thumbprint is needed."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.provider = iam.CfnOIDCProvider(
            self, "Provider", url=f"https://{ISSUER}", client_id_list=[AUDIENCE]
        )
