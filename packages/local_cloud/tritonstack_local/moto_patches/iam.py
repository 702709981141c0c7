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
    """Create the managed policies of one account, where they are attached and counted."""
    if not load_iam_aws_managed_policies():
        return []
    account, region = backend.account_id, backend.region_name
    make: Any = AWSManagedPolicy  # mypy considers it abstract: moto lacks annotations
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
    """Handle AddClientIDToOpenIDConnectProvider; an existing id is not an error."""
    clients, client = _asked(response)
    if client not in clients:
        clients.append(client)
    return EmptyResult()


def remove_client_id(response: Any) -> EmptyResult:
    """Handle RemoveClientIDFromOpenIDConnectProvider; a missing id is not an error."""
    clients, client = _asked(response)
    if client in clients:
        clients.remove(client)
    return EmptyResult()


def _asked(response: Any) -> tuple[list[str], str]:
    provider = response.backend.get_open_id_connect_provider(response._get_param("OpenIDConnectProviderArn"))
    return provider.client_id_list, response._get_param("ClientID")


_assume_role = STSBackend.assume_role


def assume_role(backend: Any, **asked: Any) -> Any:
    """Handle AssumeRole."""
    arn = asked["role_arn"]
    role = _find(arn)
    if role is None or not _trusted(role, arn, backend.account_id):
        # AWS's response for missing roles and for roles that do not trust the caller.
        raise STSClientError(
            "AccessDenied",
            f"User: arn:aws:iam::{backend.account_id}:root is not authorized to perform: sts:AssumeRole on "
            f"resource: {arn}",
        )
    session = _assume_role(backend, **asked)
    add_session(session.access_key, token=session.session_token, expiration=session.expiration)
    return session


def assume_role_with_web_identity(_backend: Any, **_: Any) -> Any:
    """Reject the token: the keys to verify it cannot be fetched."""
    raise DeniedError(Reason.INVALID_IDENTITY_TOKEN)


def _trusted(role: Any, arn: str, account: str) -> bool:
    """Return whether a role trusts the caller. Every key is an administrator of its account."""
    if f":iam::{account}:" in arn:
        return True
    caller = caller_of(flask.request.environ)
    return trusts(json.loads(role.assume_role_policy_document), caller.principal)


def _find(arn: str) -> Any:
    _, _, _, _, account, resource = arn.split(":", 5)
    # Looked up without creating a backend, which would load all AWS managed policies.
    backends = [of.get("aws") for known, of in list(iam_models.iam_backends.items()) if known == account]
    name = resource.rsplit("/", 1)[-1]
    roles = [role for backend in backends if backend for role in list(backend.roles.values())]
    return next((role for role in roles if role.name == name), None)
