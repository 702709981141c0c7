"""Requests signed by botocore, as the reference for the verifier."""

import hashlib
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tritonstack_local.access.keys import AccessKey
from tritonstack_local.access.requests import SentRequest
from tritonstack_local.access.verifier import Verifier

ACCOUNT = "111122223333"
KEY = AccessKey("AKIA0000111122223333", "a/secret+key", ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root")
SESSION = AccessKey(
    "ASIASESSION",
    "another/secret",
    ACCOUNT,
    f"arn:aws:iam::{ACCOUNT}:role/session",
    session_token="token/of+the=session",
    expires=datetime.now(UTC) + timedelta(hours=3),
)
KEYS = {key.key_id: key for key in (KEY, SESSION)}
HOST = "localhost:4566"
REGION = "eu-west-1"


def credentials(key=KEY):
    return Credentials(key.key_id, key.secret, key.session_token)


def sent(request, url=None):
    """Return a prepared request as the server receives it."""
    parts = urlsplit(url or request.url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = [
        ("Host", parts.netloc),
        *((_text(name), _text(value)) for name, value in request.headers.items()),
    ]
    return SentRequest(request.method, target, tuple(headers))


def _text(value):
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def signed(method="POST", path="/", *, body=b"", headers=None, service="sts", key=KEY, host=HOST, auth=None):
    """A request with a signature in its headers."""
    request = AWSRequest(method, f"http://{host}{path}", data=body, headers=headers or {})
    if service == "s3":
        request.headers["x-amz-content-sha256"] = hashlib.sha256(body).hexdigest()
    signer = auth or (S3SigV4Auth if service == "s3" else SigV4Auth)
    signer(credentials(key), service, REGION).add_auth(request)
    return sent(request)


def verifier(now=None):
    return Verifier(KEYS.get, now=(lambda: now) if now else lambda: datetime.now(UTC))


def judge(request, body=b"", *, now=None, piece=7):
    """Check a request as the guard does: the head, then the body in pieces."""
    check = verifier(now).begin(request)
    for start in range(0, len(body), piece):
        check.payload.update(body[start : start + piece])
    check.payload.finish()
    return check
