"""Find the account of a caller by the access key of the request.

A key that starts with `AKIA0000` ends with the account it belongs to; keys issued by STS or IAM belong to
the account that issued them; every other key belongs to the account the cloud was started for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_KEY_PREFIX = "AKIA0000"
_CREDENTIAL = re.compile(r"Credential=(?P<key>[^/]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")


@dataclass(frozen=True)
class Credential:
    """The credential scope that a signed request carries."""

    access_key: str
    region: str
    service: str


def access_key_for(account_id: str) -> str:
    """Return the access key of an account in this cloud."""
    return f"{_KEY_PREFIX}{account_id}"


def account_in_key(access_key: str) -> str | None:
    """Return the account of an access key made by `access_key_for`; None for other keys."""
    account_id = access_key.removeprefix(_KEY_PREFIX)
    return account_id if account_id != access_key and re.fullmatch(r"\d{12}", account_id) else None


def read_credential(*, headers: Mapping[str, str], query: str = "") -> Credential | None:
    """Read the credential scope of a request, from its header or (presigned) from its query string."""
    presigned = query.replace("%2F", "/").replace("X-Amz-Credential=", "Credential=")
    match = _CREDENTIAL.search(headers.get("Authorization", "")) or _CREDENTIAL.search(presigned)
    if match is None:
        return None
    return Credential(access_key=match["key"], region=match["region"], service=match["service"].lower())
