"""STS issues credentials of roles that exist and trust the caller; moto issues them of every name."""

from __future__ import annotations

import json
from typing import Any

import flask
import moto.iam.models as iam_models
from moto.sts.exceptions import STSClientError
from moto.sts.models import STSBackend

from tritonstack_local.access.denials import DeniedError, Reason
from tritonstack_local.access.guard import caller_of
from tritonstack_local.access.moto_keys import add_session
from tritonstack_local.assuming import trusts

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
    """Whether a role trusts the caller. Within an account every key is an administrator's."""
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
