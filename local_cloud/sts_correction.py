"""AWS gives credentials of roles that exist; moto gives them of every name, in every account."""

from __future__ import annotations

from typing import Any

import moto.iam.models as iam_models
from moto.sts.exceptions import STSClientError
from moto.sts.models import STSBackend

from local_cloud.access.moto_keys import add_session

_assume_role = STSBackend.assume_role


def assume_role(backend: Any, **asked: Any) -> Any:
    """Answer AssumeRole, and the same with a web identity, whose token nobody checks here."""
    arn = asked["role_arn"]
    if not _exists(arn):
        # What AWS answers whether the role is missing or does not trust the caller: it does not tell which.
        raise STSClientError(
            "AccessDenied",
            f"User: arn:aws:iam::{backend.account_id}:root is not authorized to perform: sts:AssumeRole on "
            f"resource: {arn}",
        )
    role = _assume_role(backend, **asked)
    add_session(role.access_key, token=role.session_token, expiration=role.expiration)
    return role


def _exists(arn: str) -> bool:
    _, _, _, _, account, resource = arn.split(":", 5)
    # Asked for without making it: every backend that is made loads all of AWS's managed policies.
    backends = [of.get("aws") for known, of in list(iam_models.iam_backends.items()) if known == account]
    name = resource.rsplit("/", 1)[-1]
    return any(role.name == name for backend in backends if backend for role in list(backend.roles.values()))
