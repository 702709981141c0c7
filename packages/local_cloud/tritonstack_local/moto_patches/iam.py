"""Correct moto's IAM and STS: issued keys, managed policies, OIDC audiences, and assumed roles."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import flask
import moto.iam.models as iam_models
from moto.core.responses import EmptyResult
from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, IAMBackend, iam_backends
from moto.settings import load_iam_aws_managed_policies
from moto.sts.exceptions import STSClientError
from moto.sts.models import STSBackend

from tritonstack.base.files import parse_json
from tritonstack_local.access.accounts import trusts
from tritonstack_local.access.keys import AccessKey
from tritonstack_local.access.requests import DeniedError, Reason
from tritonstack_local.scope import caller_of

_ALPHABET = string.ascii_letters + string.digits + "+/"


def find_issued_key(key_id: str) -> AccessKey | None:
    """Return an active key that moto issued; None if there is none."""
    for account, backend in _iam_backends():
        key = backend.access_keys.get(key_id)
        if key is not None:
            return _described(account, key) if key.status == "Active" else None
    return None


def _iam_backends() -> Iterator[tuple[str, Any]]:
    # Looked up without creating a backend, which would load all AWS managed policies.
    for account, partitions in list(iam_backends.items()):
        for backend in list(partitions.values()):
            yield account, backend


def _described(account: str, key: Any) -> AccessKey:
    principal = f"arn:aws:iam::{account}:root"
    if key.role_arn is not None:
        principal = key.role_arn
    elif key.user_name is not None:
        principal = f"arn:aws:iam::{account}:user/{key.user_name}"
    token = getattr(key, "session_token", None)
    expires = getattr(key, "expires", None)
    if key.access_key_id.startswith("ASIA") and expires is None:
        expires = datetime.fromtimestamp(0, UTC)  # issued without `add_session`: valid without token, forever
    return AccessKey(key.access_key_id, key.secret_access_key, account, principal, token, expires)


def random_secret(length: int) -> str:
    """Draw a secret from the operating system; moto's own generator can be seeded and predicted."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def add_session(key: Any, *, token: str, expiration: datetime) -> None:
    """Record the session token and expiry of a temporary key."""
    key.session_token = token
    key.expires = expiration if expiration.tzinfo else expiration.replace(tzinfo=UTC)


CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    # moto generates secrets with a generator that its own routes can seed.
    (iam_models, "random_alphanumeric", random_secret),
)


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
        for name, published in parse_json(aws_managed_policies_data).items()
    ]


def add_client_id(response: Any) -> EmptyResult:
    """Handle AddClientIDToOpenIDConnectProvider; an existing id is not an error."""
    return _change_clients(response, lambda clients, client: [*clients, client])


def remove_client_id(response: Any) -> EmptyResult:
    """Handle RemoveClientIDFromOpenIDConnectProvider; a missing id is not an error."""
    return _change_clients(response, lambda clients, _: clients)


def _change_clients(response: Any, change: Callable[[list[str], str], list[str]]) -> EmptyResult:
    provider = response.backend.get_open_id_connect_provider(response._get_param("OpenIDConnectProviderArn"))
    client = response._get_param("ClientID")
    others = [known for known in provider.client_id_list if known != client]
    provider.client_id_list[:] = change(others, client)
    return EmptyResult()


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


def reject_identity(_backend: Any, **_: Any) -> Any:
    """Reject a web identity or SAML assertion: the keys to verify it cannot be fetched."""
    raise DeniedError(Reason.INVALID_IDENTITY_TOKEN)


def _trusted(role: Any, arn: str, account: str) -> bool:
    """Return whether a role trusts the caller. Every key is an administrator of its account."""
    if f":iam::{account}:" in arn:
        return True
    caller = caller_of(flask.request.environ)
    return trusts(parse_json(role.assume_role_policy_document), caller.principal)


def _find(arn: str) -> Any:
    _, _, _, _, account, resource = arn.split(":", 5)
    name = resource.rsplit("/", 1)[-1]
    for known, backend in _iam_backends():
        for role in list(backend.roles.values()) if known == account else ():
            if role.name == name:
                return role
    return None
