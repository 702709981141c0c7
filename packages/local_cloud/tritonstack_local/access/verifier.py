"""Verify the signature of a request; return its access key and the check of its body.

Signatures are recomputed with botocore's own signers. Independent of any web server. The body's check decides
once it has seen the whole body: services other than S3 sign the hash of the body, so their signatures are
verified only then.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple, Protocol

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tritonstack_local.access.keys import AccessKey
from tritonstack_local.access.requests import S3, DeniedError, Reason, SentRequest, split_query
from tritonstack_local.scope import Caller

UNSIGNED = "UNSIGNED-PAYLOAD"


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class Payload:
    """A body and its checks: hashes, each with a function that denies wrong digests."""

    def __init__(self, *checks: tuple[_Hash, Callable[[bytes], None]]) -> None:
        self._checks = checks

    def update(self, data: bytes) -> None:
        """Process the next part of the body."""
        for hash_, _ in self._checks:
            hash_.update(data)

    def finish(self) -> None:
        """Deny the request if one of the checks fails."""
        for hash_, check in self._checks:
            check(hash_.digest())

    def and_checksums(self, request: SentRequest) -> Payload:
        """Check also the checksums in the request's headers."""
        names = [name for name in _HASHES if name in request.headers]
        return Payload(*self._checks, *((_HASHES[name](), _declared_in(request, name)) for name in names))


def hashed(check: Callable[[str], None]) -> Payload:
    """Return the payload whose SHA-256 `check` verifies."""
    return Payload((hashlib.sha256(), lambda digest: check(digest.hex())))


def equal_to(declared: str) -> Callable[[str], None]:
    """Create a check that denies every hash but the declared one."""

    def check(actual: str) -> None:
        if not hmac.compare_digest(declared, actual):
            raise DeniedError(Reason.PAYLOAD_MISMATCH)

    return check


def _declared_in(request: SentRequest, name: str) -> Callable[[bytes], None]:
    declared = (request.header(name) or "").encode()

    def check(digest: bytes) -> None:
        if not hmac.compare_digest(base64.b64encode(digest), declared):
            raise DeniedError(
                Reason.BAD_DIGEST, f"The {name} you specified did not match the calculated checksum."
            )

    return check


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


_HASHES: Mapping[str, Callable[[], _Hash]] = {
    "content-md5": lambda: hashlib.md5(usedforsecurity=False),
    "x-amz-checksum-crc32": _Crc32,
    "x-amz-checksum-sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "x-amz-checksum-sha256": hashlib.sha256,
}
"""The verified checksums; Python's standard library lacks CRC32C and CRC64NVME."""


ALGORITHM = "AWS4-HMAC-SHA256"
MAX_SKEW = timedelta(minutes=15)
MAX_EXPIRES_S = 7 * 24 * 3600

_CLAIM = re.compile(
    rf"{ALGORITHM}\s+Credential=(?P<credential>[^,\s]+)\s*,\s*SignedHeaders=(?P<headers>[^,\s]+)\s*,"
    r"\s*Signature="
)
_SIGNATURE_SIZE = 64
_SIGNATURE = re.compile(rf"[0-9a-f]{{{_SIGNATURE_SIZE}}}")
_CREDENTIAL = re.compile(r"(?P<key>[^/]+)/(?P<date>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")
_DATE = "%Y%m%dT%H%M%SZ"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PAYLOAD_HASH = "x-amz-content-sha256"
_DECIDING = ("x-amz-target", "x-tritonstack-step")
"""Headers that say what a request does; S3 requires a signature for all of Amazon's headers."""
_PRESIGNED = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")


class BodyCheck(NamedTuple):
    """The signer of a request, and the check that its body must pass."""

    key: AccessKey
    region: str
    service: str
    payload: Payload

    @property
    def is_final(self) -> bool:
        """Whether the signature is verified; only the body remains to be checked."""
        return self.service == S3

    @property
    def caller(self) -> Caller:
        """The signer."""
        return Caller(self.key.key_id, self.key.account, self.key.principal, self.region, self.service)


class _Claim(NamedTuple):
    """Who claims to have signed which headers, for which day, region, and service."""

    key_id: str
    day: str
    region: str
    service: str
    headers: Sequence[str]


class _Signed(NamedTuple):
    """The parts of a signature, from the header or the query."""

    claim: _Claim
    date: str
    signature: str
    token: str | None
    presigned: bool

    @property
    def is_s3(self) -> bool:
        return self.claim.service == S3

    @property
    def moment(self) -> datetime:
        return _moment(self.date)


@lru_cache(maxsize=1024)
def _moment(date: str) -> datetime:
    try:
        return datetime.strptime(date, _DATE).replace(tzinfo=UTC)
    except ValueError:
        raise DeniedError(
            Reason.INCOMPLETE, f"Date must be in ISO-8601 'basic format'. Got '{date}'."
        ) from None


class Verifier:
    """Verifies requests with the keys that `find_key` returns."""

    def __init__(
        self,
        find_key: Callable[[str], AccessKey | None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._find_key = find_key
        self._now = now

    def begin(self, request: SentRequest) -> BodyCheck:
        """Verify a request except for its body."""
        request.check()
        presigned = "?" in request.target and request.parameter("X-Amz-Algorithm") is not None
        header = request.header("authorization")
        if header is not None and presigned:
            raise DeniedError(Reason.INCOMPLETE, "Only one authentication mechanism is allowed per request")
        if header is None and not presigned:
            raise DeniedError(Reason.MISSING)
        signed = _from_query(request) if header is None else _from_header(request, header)
        key = self._key(signed.claim.key_id, signed.token)
        self._check_time(request, signed)
        _check_signed_headers(request, signed)

        def check_signature(body_hash: str) -> None:
            if not hmac.compare_digest(_signature(request, signed, key.secret, body_hash), signed.signature):
                raise DeniedError(Reason.MISMATCH)

        payload = hashed(check_signature)
        if signed.is_s3:
            declared = _declared(request, signed)
            check_signature(declared)
            payload = Payload() if declared == UNSIGNED else hashed(equal_to(declared))
        return BodyCheck(key, signed.claim.region, signed.claim.service, payload)

    def _key(self, key_id: str, token: str | None) -> AccessKey:
        key = self._find_key(key_id)
        if key is None:
            raise DeniedError(Reason.UNKNOWN_KEY)
        if (key.session_token or token) and not hmac.compare_digest(
            (key.session_token or "").encode(), (token or "").encode()
        ):
            raise DeniedError(Reason.INVALID_TOKEN)
        if key.expires is not None and self._now() > key.expires:
            raise DeniedError(Reason.EXPIRED_TOKEN)
        return key

    def _check_time(self, request: SentRequest, signed: _Signed) -> None:
        moment, now = signed.moment, self._now()
        if signed.claim.day != signed.date[:8]:
            raise DeniedError(
                Reason.MISMATCH, f"The credential is of {signed.claim.day}, and the request of {signed.date}"
            )
        if moment - now > MAX_SKEW or (not signed.presigned and now - moment > MAX_SKEW):
            word = "expired" if moment < now else "not yet current"
            raise DeniedError(
                Reason.SKEWED,
                f"Signature {word}: {signed.date} differs from {now.strftime(_DATE)} by more than 15 min.",
            )
        if signed.presigned and now > moment + timedelta(seconds=_expires(request)):
            raise DeniedError(Reason.PRESIGNED_EXPIRED)


def _signature(request: SentRequest, signed: _Signed, secret: str, body_hash: str) -> str:
    """Sign what the client says it has signed, with the secret of its key."""
    claim = signed.claim
    if not signed.is_s3 and request.header(_PAYLOAD_HASH) not in (None, body_hash):
        raise DeniedError(Reason.MISMATCH)
    query = request.query
    if signed.presigned:
        pairs = (pair for pair in split_query(query) if pair[0] != "X-Amz-Signature")
        query = "&".join("=".join(pair) for pair in pairs)
    unsigned = AWSRequest(request.method, f"http://localhost{request.path}?{query}")
    unsigned.context["timestamp"] = signed.date
    for name in claim.headers:
        if name not in request.headers:
            raise DeniedError(Reason.MISMATCH)
        for value in request.headers[name]:
            unsigned.headers.add_header(name, value)
    make = S3SigV4Auth if signed.is_s3 else SigV4Auth
    signer = make(Credentials(claim.key_id, secret), claim.service, claim.region)
    signer.payload = lambda _: body_hash  # the body itself is not kept
    text: str = signer.string_to_sign(unsigned, signer.canonical_request(unsigned))
    signature: str = signer.signature(text, unsigned)
    return signature


def _parse_claim(credential: str, headers: str) -> _Claim:
    match = _CREDENTIAL.fullmatch(credential)
    if match is None:
        raise DeniedError(
            Reason.INCOMPLETE,
            "Credential must have exactly 5 slash-delimited elements, e.g. "
            f"keyid/date/region/service/aws4_request, got: '{credential}'",
        )
    return _Claim(match["key"], match["date"], match["region"], match["service"], tuple(headers.split(";")))


def _from_header(request: SentRequest, header: str) -> _Signed:
    text = header.strip()
    signature = text[-_SIGNATURE_SIZE:]
    claim = _claim(text[:-_SIGNATURE_SIZE]) if _SIGNATURE.fullmatch(signature) else None
    if claim is None:
        if not header.startswith(f"{ALGORITHM} "):
            raise DeniedError(Reason.UNSUPPORTED)
        raise DeniedError(
            Reason.INCOMPLETE,
            "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature' parameters.",
        )
    return _Signed(
        claim=claim,
        date=(request.header("x-amz-date") or "").strip(),
        signature=signature,
        token=request.header("x-amz-security-token"),
        presigned=False,
    )


@lru_cache(maxsize=1024)
def _claim(text: str) -> _Claim | None:
    """Parse an Authorization header up to its signature. A client sends the same claim all day."""
    match = _CLAIM.fullmatch(text)
    return None if match is None else _parse_claim(match["credential"], match["headers"])


def _from_query(request: SentRequest) -> _Signed:
    values = {name: request.parameter(f"X-Amz-{name}") or "" for name in _PRESIGNED}
    if values["Algorithm"] != ALGORITHM:
        raise DeniedError(Reason.UNSUPPORTED)
    names = [name for name, _ in request.query_pairs]
    if len(set(names)) != len(names) or not {f"X-Amz-{name}" for name in _PRESIGNED} <= set(names):
        raise DeniedError(
            Reason.INCOMPLETE,
            "Query-string authentication requires each of "
            f"{', '.join(f'X-Amz-{name}' for name in _PRESIGNED)} once",
        )
    claim = _parse_claim(values["Credential"], values["SignedHeaders"])
    if _SIGNATURE.fullmatch(values["Signature"]) is None:
        raise DeniedError(Reason.MISMATCH)
    return _Signed(
        claim=claim,
        date=values["Date"],
        signature=values["Signature"],
        token=request.parameter("X-Amz-Security-Token"),
        presigned=True,
    )


def _expires(request: SentRequest) -> int:
    text = request.parameter("X-Amz-Expires") or ""
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not 0 < seconds <= MAX_EXPIRES_S:
        raise DeniedError(
            Reason.INCOMPLETE, f"X-Amz-Expires must be between 1 and {MAX_EXPIRES_S} seconds, got '{text}'"
        )
    return seconds


def _check_signed_headers(request: SentRequest, signed: _Signed) -> None:
    if "host" not in signed.claim.headers:
        raise DeniedError(Reason.MISMATCH, "'Host' must be a 'SignedHeader' in the AWS Authorization.")
    if not signed.is_s3:
        for name in _DECIDING:
            if name in request.headers and name not in signed.claim.headers:
                raise DeniedError(
                    Reason.MISMATCH, f"'{name}' must be a 'SignedHeader' in the AWS Authorization."
                )
        return
    unsigned = [
        name for name in request.headers if name.startswith("x-amz-") and name not in signed.claim.headers
    ]
    if unsigned:
        raise DeniedError(
            Reason.ACCESS_DENIED,
            f"There were headers present in the request which were not signed: {', '.join(unsigned)}",
        )


def _declared(request: SentRequest, signed: _Signed) -> str:
    """Return the payload hash that an S3 request declares."""
    declared = request.header(_PAYLOAD_HASH)
    if declared is None and signed.presigned:
        return UNSIGNED
    if declared is None:
        raise DeniedError(Reason.MISSING_PAYLOAD_HASH)
    if declared != UNSIGNED and _SHA256.fullmatch(declared) is None:
        # Bodies in chunks of their own are uploaded over HTTPS only.
        raise DeniedError(
            Reason.UNSUPPORTED if declared.startswith("STREAMING-") else Reason.PAYLOAD_MISMATCH
        )
    return declared
