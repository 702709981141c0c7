"""Resolve an environment's cloud and create its AWS clients.

An environment with the local cloud's account uses that cloud's endpoint; any other uses the default AWS
credential chain, after a check that the credentials belong to its account.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base import naming
from tritonstack.base.error_kinds import AwsCallError
from tritonstack.base.errors import TritonstackError, aws_error_code, aws_error_message
from tritonstack.files.environment.environment import EnvironmentSpec

if TYPE_CHECKING:
    import boto3

_RETRIES = {"mode": "standard", "max_attempts": 5}

_MAKING = threading.Lock()
"""Sessions create clients one at a time; clients are thread-safe."""


_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")

CONFLICTING_VARIABLES = (
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
"""AWS login variables that would conflict with the local cloud's keys and endpoint."""


class CloudAccessError(TritonstackError):
    """There are no valid credentials for the account, they may not assume its role, or they belong to another
    account than the environment's. Log in, for example with `aws sso login`, select a profile with
    `AWS_PROFILE`, or correct `account` in the environment's file.
    """

    code = "TS501"
    title = "No access to the AWS account"


@dataclass(frozen=True)
class Clock:
    """Time source for code that waits on AWS; tests speed it up."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Cloud:
    """An account, a region, and the environment variables for AWS tools."""

    account: str
    region: str
    variables: Mapping[str, str]

    @cached_property
    def session(self) -> boto3.Session:
        """The boto3 session of all clients."""
        import boto3  # noqa: PLC0415 - takes longer to import than most commands that call no AWS service

        return boto3.Session(
            profile_name=self.variables.get("AWS_PROFILE"),
            region_name=self.region,
            aws_access_key_id=self.variables.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=self.variables.get("AWS_SECRET_ACCESS_KEY"),
            aws_session_token=self.variables.get("AWS_SESSION_TOKEN"),
        )

    @cached_property
    def _clients(self) -> dict[str, Any]:
        return {}

    def client(self, service: str) -> Any:
        """Return a cached boto3 client: creating one is slower than most calls."""
        from botocore.config import Config  # noqa: PLC0415 - as boto3

        with _MAKING:
            if service not in self._clients:
                config = Config(retries=_RETRIES, connect_timeout=10, read_timeout=70)
                self._clients[service] = self.session.client(
                    service, config=config, endpoint_url=self.variables.get("AWS_ENDPOINT_URL")
                )
            return self._clients[service]

    def process_environment(self) -> dict[str, str]:
        """Return the environment variables for a child process that uses this cloud."""
        inherited = dict(os.environ)
        if "AWS_PROFILE" in self.variables:
            # Access keys in the environment would override the requested profile.
            for name in _KEYS:
                inherited.pop(name, None)
        if "AWS_ENDPOINT_URL" in self.variables:
            for name in CONFLICTING_VARIABLES:
                inherited.pop(name, None)
        return {**inherited, **self.variables}


def cloud_of(spec: EnvironmentSpec, *, variables: Mapping[str, str]) -> Cloud:
    """Return the cloud of an environment; `variables` select a local cloud and are empty for AWS."""
    return Cloud(spec.account, spec.region, variables)


def require_account(cloud: Cloud) -> None:
    """Reject credentials of a different account."""
    try:
        actual = cloud.client("sts").get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        raise CloudAccessError(
            f"cannot access AWS account {cloud.account}: {error}",
            remedy="log in (for example `aws sso login`), select a profile with AWS_PROFILE, or correct "
            "`account` in the environment file",
        ) from None
    if actual != cloud.account:
        raise CloudAccessError(
            (
                f"{_credentials(cloud)} belong to account {actual}, but the environment uses account "
                f"{cloud.account}"
            ),
            remedy="select the right profile with AWS_PROFILE, or correct `account` in the environment file",
        )


def _credentials(cloud: Cloud) -> str:
    profile = cloud.variables.get("AWS_PROFILE")
    return f"the credentials of profile {profile!r}" if profile else "the current credentials"


@contextmanager
def explain_denied(service: str) -> Iterator[None]:
    """Name the missing IAM action if a call is denied; `service` is its prefix in IAM, such as logs."""
    try:
        yield
    except ClientError as error:
        if aws_error_code(error) not in ("AccessDenied", "AccessDeniedException"):
            raise
        action = f"{service}:{error.operation_name}"
        raise AwsCallError(
            f"the current credentials lack the permission {action}: {aws_error_message(error)}",
            remedy=f"add {action} to the IAM policy of these credentials, or select others with AWS_PROFILE",
        ) from error


AWS_ERRORS = (BotoCoreError, ClientError)
"""What any call to AWS can raise."""

_ABSENT = frozenset(
    {
        "404",
        "ImageNotFoundException",
        "NoSuchBucket",
        "NoSuchEntity",
        "NoSuchKey",
        "NotFound",
        "NotFoundException",
        "ParameterNotFound",
        "RepositoryNotFoundException",
        "ResourceNotFound",
        "ResourceNotFoundException",
    }
)
_ABSENT_TEXTS = {"ValidationError": "does not exist", "ValidationException": "could not find"}
"""CloudFormation and SageMaker have no code for it."""
Argument = TypeVar("Argument")
Answer = TypeVar("Answer")


def is_absent(error: ClientError) -> bool:
    """Return whether AWS answers that what a call names does not exist."""
    code = aws_error_code(error)
    text = _ABSENT_TEXTS.get(code)
    return code in _ABSENT or (text is not None and text in aws_error_message(error).lower())


def if_present(call: Callable[..., Answer], **parameters: Any) -> Answer | None:
    """Return AWS's answer to a call; None if what it names does not exist."""
    try:
        return call(**parameters)
    except ClientError as error:
        if is_absent(error):
            return None
        raise


def pages(client: Any, operation: str, key: str, **parameters: Any) -> Iterator[Any]:
    """Yield all items of an AWS listing, page by page."""
    for page in client.get_paginator(operation).paginate(**parameters):
        yield from page.get(key, ())


def list_if_present(client: Any, operation: str, key: str, **parameters: Any) -> list[Any]:
    """Return all items of an AWS listing; none if what holds them does not exist."""
    return if_present(lambda: list(pages(client, operation, key, **parameters))) or []


def in_parallel(
    work: Callable[[Argument], Answer], items: Iterable[Argument], *, at_once: int = 8
) -> list[Answer]:
    """Map a function over items in threads, in order."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(work, items))


def metric_query(
    query_id: str,
    metric: str,
    dimensions: Mapping[str, str],
    statistic: str,
    period_s: int,
    *,
    namespace: str = "AWS/SageMaker",
) -> dict[str, Any]:
    """Return a query of CloudWatch's GetMetricData."""
    named = [{"Name": key, "Value": value} for key, value in dimensions.items()]
    named_metric = {"Namespace": namespace, "MetricName": metric, "Dimensions": named}
    return {"Id": query_id, "MetricStat": {"Metric": named_metric, "Period": period_s, "Stat": statistic}}


# Environments in two accounts need two sets of credentials: those of the given profile; else the current
# ones, if they belong to that account; else a role in that account that trusts the current one.

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
    partition = identity["Arn"].split(":")[1]  # both accounts share it
    arn = f"arn:{partition}:iam::{spec.account}:role/{role}"
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
