"""Access keys issued by moto to IAM users and STS sessions, with random secrets."""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import moto.iam.models as iam_models
from moto.core.responses import ActionResult
from moto.iam.models import iam_backends
from moto.sts.models import Token
from moto.sts.responses import TokenResponse
from moto.sts.utils import random_session_token

from tritonstack_local.signatures.keys import AccessKey

_ALPHABET = string.ascii_letters + string.digits + "+/"
_DEFAULT_DURATION_S = 43200


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
        expires = datetime.fromtimestamp(0, UTC)  # issued by a version that recorded no token
    return AccessKey(key.access_key_id, key.secret_access_key, account, principal, token, expires)


def random_secret(length: int) -> str:
    """Draw a secret from the operating system; moto's own generator can be seeded and predicted."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def add_session(key: Any, *, token: str, expiration: datetime) -> None:
    """Record the session token and expiry of a temporary key."""
    key.session_token = token
    key.expires = expiration if expiration.tzinfo else expiration.replace(tzinfo=UTC)


def get_session_token(response: TokenResponse) -> ActionResult:
    """Answer GetSessionToken with a key of the caller's account."""
    return ActionResult({"Credentials": _issue(response)})


def get_federation_token(response: TokenResponse) -> ActionResult:
    """Answer GetFederationToken with a key of the caller's account."""
    answered: Any = _answer_federation(response)
    answered.result["Credentials"] = _issue(response)
    return ActionResult(answered.result)


def _issue(response: Any) -> dict[str, Any]:
    duration = response._get_int_param("DurationSeconds", _DEFAULT_DURATION_S)
    expiration = Token(duration=duration).expiration
    key = iam_backends[response.current_account][response.partition].create_temp_access_key()
    token = random_session_token()
    add_session(key, token=token, expiration=expiration)
    return {
        "AccessKeyId": key.access_key_id,
        "SecretAccessKey": key.secret_access_key,
        "SessionToken": token,
        "Expiration": expiration,
    }


_answer_federation = TokenResponse.get_federation_token

CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    # moto generates secrets with a generator that its own routes can seed.
    (iam_models, "random_alphanumeric", random_secret),
    # moto answers these two with example keys from AWS's documentation.
    (TokenResponse, "get_session_token", get_session_token),
    (TokenResponse, "get_federation_token", get_federation_token),
)
