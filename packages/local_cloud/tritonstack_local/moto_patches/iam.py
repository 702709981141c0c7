"""Correct moto's IAM and STS: managed policies, OIDC audiences, and assumed roles."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from typing import Any

import flask
import moto.iam.models as iam_models
from moto.core.responses import EmptyResult
from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, IAMBackend
from moto.settings import load_iam_aws_managed_policies
from moto.sts.exceptions import STSClientError
from moto.sts.models import STSBackend

from tritonstack_local.access.denials import DeniedError, Reason
from tritonstack_local.access.guard import caller_of
from tritonstack_local.identity.role_trust import trusts
from tritonstack_local.signatures.moto_keys import add_session


def policies_of_aws(backend: IAMBackend) -> list[AWSManagedPolicy]:
    """Create the policies of one account, in which they are attached and counted."""
    if not load_iam_aws_managed_policies():
        return []
    account, region = backend.account_id, backend.region_name
    make: Any = AWSManagedPolicy  # which mypy takes for abstract, as moto does not say otherwise
    return [make(**policy, account_id=account, region=region) for policy in _published()]


@cache
def _published() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "default_version_id": published["DefaultVersionId"],
            "path": published["Path"],
            "document": json.dumps(published["Document"]),
            "create_date": datetime.fromisoformat(published["CreateDate"]),
            "update_date": datetime.fromisoformat(published["UpdateDate"]),
        }
        for name, published in json.loads(aws_managed_policies_data).items()
    ]


def add_client_id(response: Any) -> EmptyResult:
    """Answer AddClientIDToOpenIDConnectProvider; one that is there already is no fault."""
    clients, client = _asked(response)
    if client not in clients:
        clients.append(client)
    return EmptyResult()


def remove_client_id(response: Any) -> EmptyResult:
    """Answer RemoveClientIDFromOpenIDConnectProvider; one that is gone already is no fault."""
    clients, client = _asked(response)
    if client in clients:
        clients.remove(client)
    return EmptyResult()


def _asked(response: Any) -> tuple[list[str], str]:
    provider = response.backend.get_open_id_connect_provider(response._get_param("OpenIDConnectProviderArn"))
    return provider.client_id_list, response._get_param("ClientID")


_assume_role = STSBackend.assume_role


def assume_role(backend: Any, **asked: Any) -> Any:
    """Answer AssumeRole."""
    arn = asked["role_arn"]
    role = _find(arn)
    if role is None or not _trusted(role, arn, backend.account_id):
        # What AWS answers whether the role is missing or does not trust the caller: it does not tell which.
        raise STSClientError(
            "AccessDenied",
            f"User: arn:aws:iam::{backend.account_id}:root is not authorized to perform: sts:AssumeRole on "
            f"resource: {arn}",
        )
    session = _assume_role(backend, **asked)
    add_session(session.access_key, token=session.session_token, expiration=session.expiration)
    return session


def assume_role_with_web_identity(_backend: Any, **_: Any) -> Any:
    """Refuse: the keys that a token is verified with cannot be fetched without a network."""
    raise DeniedError(Reason.INVALID_IDENTITY_TOKEN)


def _trusted(role: Any, arn: str, account: str) -> bool:
    """Return whether a role trusts the caller. Within an account every key is an administrator's."""
    if f":iam::{account}:" in arn:
        return True
    caller = caller_of(flask.request.environ)
    return trusts(json.loads(role.assume_role_policy_document), caller.principal)


def _find(arn: str) -> Any:
    _, _, _, _, account, resource = arn.split(":", 5)
    # Asked for without making it: every backend that is made loads all of AWS's managed policies.
    backends = [of.get("aws") for known, of in list(iam_models.iam_backends.items()) if known == account]
    name = resource.rsplit("/", 1)[-1]
    roles = [role for backend in backends if backend for role in list(backend.roles.values())]
    return next((role for role in roles if role.name == name), None)
