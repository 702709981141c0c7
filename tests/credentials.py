"""Real credentials of the local clouds that tests start; every request is signed with them."""

from __future__ import annotations

from tritonstack_local.access.keys import CloudSecret

_SECRETS: dict[str, CloudSecret] = {}


def register(endpoint_url: str, secret: CloudSecret | None) -> None:
    """Note the secret of a cloud that has started."""
    assert secret is not None
    _SECRETS[endpoint_url] = secret


def secret_of(endpoint_url: str) -> CloudSecret:
    """The secret of a cloud."""
    return _SECRETS[endpoint_url]


def keys_of(endpoint_url: str, account_id: str) -> dict[str, str]:
    """The arguments by which boto3 signs as an account of a cloud."""
    key = _SECRETS[endpoint_url].account_key(account_id)
    return {"aws_access_key_id": key.key_id, "aws_secret_access_key": key.secret}


def variables_of(endpoint_url: str, account_id: str, *, region: str) -> dict[str, str]:
    """The variables by which AWS's tools reach a cloud as an account."""
    keys = keys_of(endpoint_url, account_id)
    return {
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": keys["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": keys["aws_secret_access_key"],
        "AWS_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
