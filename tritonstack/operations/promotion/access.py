"""Get credentials for reading one environment while working on another.

Environments in two accounts need two sets of credentials: those of the given profile; else the current ones,
if they belong to that account; else a role in that account that trusts the current one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base import naming
from tritonstack.operations.aws import Cloud, CloudAccessError, cloud_of, require_account
from tritonstack.spec.environments.environment import EnvironmentSpec

if TYPE_CHECKING:
    import boto3

_SESSION_NAME = "tritonstack-promote"


@dataclass(frozen=True)
class BorrowedCloud(Cloud):
    """Return another account's cloud through a role; its keys are renewed while copying."""

    role_arn: str
    owner: Cloud
    """The credentials that assume the role."""

    @cached_property
    def session(self) -> boto3.Session:
        """A session with the role's keys."""
        import boto3  # noqa: PLC0415 - slow to import
        import botocore.session  # noqa: PLC0415
        from botocore.credentials import DeferredRefreshableCredentials  # noqa: PLC0415

        core = botocore.session.get_session()
        # botocore has no public way to hand a session credentials that renew themselves.
        core._credentials = DeferredRefreshableCredentials(self._fresh_keys, "assume-role")
        return boto3.Session(botocore_session=core, region_name=self.region)

    def _fresh_keys(self) -> dict[str, Any]:
        response = self.owner.client("sts").assume_role(RoleArn=self.role_arn, RoleSessionName=_SESSION_NAME)
        answer = response["Credentials"]
        return {
            "access_key": answer["AccessKeyId"],
            "secret_key": answer["SecretAccessKey"],
            "token": answer["SessionToken"],
            "expiry_time": answer["Expiration"].isoformat(),
        }


def own_cloud(spec: EnvironmentSpec, *, profile: str | None) -> Cloud:
    """Return the cloud of an environment, with credentials of its own account."""
    cloud = cloud_of(spec, variables={"AWS_PROFILE": profile} if profile else {})
    require_account(cloud)
    return cloud


def readable_cloud(spec: EnvironmentSpec, *, profile: str | None, at_hand: Cloud | None) -> Cloud:
    """Return the cloud of an AWS environment, for reading artifacts to promote.

    `at_hand` is the cloud of the target environment; None means the default credentials.
    """
    if profile:
        return own_cloud(spec, profile=profile)
    chain = Cloud(spec.account, spec.region, at_hand.variables if at_hand else {})
    identity = _identity(chain, spec)
    if identity["Account"] == spec.account:
        return chain
    role = naming.promotion_role_name(spec.delivery_base)
    arn = f"{_partition(identity['Arn'])}:iam::{spec.account}:role/{role}"
    borrowed = BorrowedCloud(spec.account, spec.region, {}, role_arn=arn, owner=chain)
    try:
        borrowed.client("sts").get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        raise CloudAccessError(
            f"environment {spec.name!r} is in account {spec.account}, but the current credentials are "
            f"{identity['Arn']} of account {identity['Account']}, and they cannot assume its role {arn}: "
            f"{error}",
            remedy=f"let {spec.name} trust account {identity['Account']} and deploy its delivery stack, "
            "allow your identity sts:AssumeRole on the role, or pass a profile of that account with "
            "--from-profile",
        ) from None
    return borrowed


def _identity(chain: Cloud, spec: EnvironmentSpec) -> dict[str, str]:
    try:
        identity: dict[str, str] = chain.client("sts").get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        raise CloudAccessError(
            f"no access to AWS account {spec.account} of environment {spec.name!r}: {error}",
            remedy="log in (for example `aws sso login`) or pass a profile with --from-profile",
        ) from None
    return identity


def _partition(arn: str) -> str:
    """Return the caller's partition, which both accounts share."""
    return ":".join(arn.split(":")[:2])
