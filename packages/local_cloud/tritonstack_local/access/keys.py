"""Access keys: one random secret per cloud, and one derived secret key per account.

A key that starts with `AKIA0000` ends with the account it belongs to; keys issued by STS or IAM belong to
the account that issued them (moto_patches/iam.py); every other key is denied.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path

_KEY_PREFIX = "AKIA0000"
_OWN_KEY = re.compile(rf"{_KEY_PREFIX}(?P<account>\d{{12}})")


def access_key_for(account_id: str) -> str:
    """Return the access key of an account in this cloud."""
    return f"{_KEY_PREFIX}{account_id}"


_FILE = "secret"
_BYTES = 32


@dataclass(frozen=True)
class AccessKey:
    """An access key, and the account and principal it belongs to."""

    key_id: str
    secret: str = field(repr=False)
    account: str
    principal: str
    """The principal's ARN: an account's root, a user, or the role of a session."""
    session_token: str | None = field(default=None, repr=False)
    expires: datetime | None = None


class CloudSecret:
    """The random secret of a cloud. Only its owner can read it; logs and errors never contain it."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self.account_key = lru_cache(maxsize=1024)(self._account_key)

    @classmethod
    def random(cls) -> CloudSecret:
        """Create a new one."""
        return cls(secrets.token_bytes(_BYTES))

    @classmethod
    def kept_in(cls, folder: Path) -> CloudSecret:
        """Read the secret of a cloud's folder; create it if missing."""
        existing = cls.read(folder)
        if existing is not None:
            return existing
        value = secrets.token_bytes(_BYTES)
        write_private(folder / _FILE, value.hex() + "\n")
        return cls(value)

    @classmethod
    def read(cls, folder: Path) -> CloudSecret | None:
        """Read the secret of a cloud's folder; None if it is missing or incomplete."""
        try:
            value = bytes.fromhex((folder / _FILE).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return cls(value) if len(value) == _BYTES else None

    def _account_key(self, account_id: str) -> AccessKey:
        key_id = access_key_for(account_id)
        digest = hmac.digest(self._value, key_id.encode(), hashlib.sha256)
        secret = base64.b64encode(digest).decode()[:40]
        return AccessKey(key_id, secret, account_id, f"arn:aws:iam::{account_id}:root")

    def find(self, key_id: str) -> AccessKey | None:
        """Return the account key with this id; None if it names no account."""
        match = _OWN_KEY.fullmatch(key_id)
        return match and self.account_key(match["account"])


def forget_secret(folder: Path) -> None:
    """Remove the secret of a cloud's folder."""
    (folder / _FILE).unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, replacing an earlier one as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
