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
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tritonstack_local.access.keys import AccessKey
from tritonstack_local.access.requests import S3, DeniedError, Reason, SentRequest, split_query
from tritonstack_local.scope import Caller

MAX_SKEW = timedelta(minutes=15)
MAX_EXPIRES_S = 7 * 24 * 3600
_ALGORITHM = "AWS4-HMAC-SHA256"
_UNSIGNED = "UNSIGNED-PAYLOAD"
_AUTHORIZATION = re.compile(
    rf"{_ALGORITHM}\s+Credential=(?P<Credential>[^,\s]+)\s*,\s*SignedHeaders=(?P<SignedHeaders>[^,\s]+)\s*,"
    r"\s*Signature=(?P<Signature>[0-9a-f]{64})"
)
_CREDENTIAL = re.compile(r"([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request")
_DATE = "%Y%m%dT%H%M%SZ"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PAYLOAD_HASH = "x-amz-content-sha256"
_DECIDING = ("x-amz-target", "x-tritonstack-step")
"""Headers that say what a request does; S3 requires a signature for all of Amazon's headers."""
_PRESIGNED = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


_CHECKSUMS: Mapping[str, Callable[[], _Hash]] = {
    "content-md5": lambda: hashlib.md5(usedforsecurity=False),
    "x-amz-checksum-crc32": _Crc32,
    "x-amz-checksum-sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "x-amz-checksum-sha256": hashlib.sha256,
}
"""The verified checksums; Python's standard library lacks CRC32C and CRC64NVME."""


class Payload:
    """A body and its checks: hashes, each with a function that denies wrong digests. Holds no body."""

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
        declared = {name: request.header(name) or "" for name in _CHECKSUMS if name in request.headers}
        checks = ((_CHECKSUMS[name](), partial(_check_digest, name, text)) for name, text in declared.items())
        return Payload(*self._checks, *checks)


def _check_digest(name: str, declared: str, digest: bytes) -> None:
    if base64.b64encode(digest) != declared.encode():
        raise DeniedError(
            Reason.BAD_DIGEST, f"The {name} you specified did not match the calculated checksum."
        )


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


class _Signed(NamedTuple):
    """The parts of a signature, from the header or the query."""

    key_id: str
    day: str
    region: str
    service: str
    headers: Sequence[str]
    date: str
    signature: str
    token: str | None
    expires: str | None
    """Of a presigned request."""


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
        signed = _signed(request)
        key = self._key(signed)
        self._check_time(signed)
        _check_signed_headers(request, signed)
        check = partial(_check_signature, request, signed, key.secret)
        if signed.service != S3:
            payload = Payload((hashlib.sha256(), lambda digest: check(digest.hex())))
        else:
            declared = _declared(request, signed)
            check(declared)
            checks = [] if declared == _UNSIGNED else [(hashlib.sha256(), partial(_check_body, declared))]
            payload = Payload(*checks)
        return BodyCheck(key, signed.region, signed.service, payload)

    def _key(self, signed: _Signed) -> AccessKey:
        key = self._find_key(signed.key_id)
        if key is None:
            raise DeniedError(Reason.UNKNOWN_KEY)
        if not hmac.compare_digest((key.session_token or "").encode(), (signed.token or "").encode()):
            raise DeniedError(Reason.INVALID_TOKEN)
        if key.expires is not None and self._now() > key.expires:
            raise DeniedError(Reason.EXPIRED_TOKEN)
        return key

    def _check_time(self, signed: _Signed) -> None:
        moment, now = _moment(signed.date), self._now()
        if signed.day != signed.date[:8]:
            raise DeniedError(
                Reason.MISMATCH, f"The credential is of {signed.day}, and the request of {signed.date}"
            )
        if moment - now > MAX_SKEW or (signed.expires is None and now - moment > MAX_SKEW):
            word = "expired" if moment < now else "not yet current"
            raise DeniedError(
                Reason.SKEWED,
                f"Signature {word}: {signed.date} differs from {now.strftime(_DATE)} by more than 15 min.",
            )
        if signed.expires is not None:
            seconds = int(signed.expires) if re.fullmatch(r"[0-9]{1,9}", signed.expires) else 0
            if not 0 < seconds <= MAX_EXPIRES_S:
                raise DeniedError(
                    Reason.INCOMPLETE,
                    f"X-Amz-Expires must be between 1 and {MAX_EXPIRES_S} seconds, got '{signed.expires}'",
                )
            if now > moment + timedelta(seconds=seconds):
                raise DeniedError(Reason.PRESIGNED_EXPIRED)


@lru_cache(maxsize=1024)
def _moment(date: str) -> datetime:
    try:
        return datetime.strptime(date, _DATE).replace(tzinfo=UTC)
    except ValueError:
        raise DeniedError(
            Reason.INCOMPLETE, f"Date must be in ISO-8601 'basic format'. Got '{date}'."
        ) from None


def _signed(request: SentRequest) -> _Signed:
    header = request.header("authorization")
    if "?" in request.target and request.parameter("X-Amz-Algorithm") is not None:
        if header is not None:
            raise DeniedError(Reason.INCOMPLETE, "Only one authentication mechanism is allowed per request")
        values = _from_query(request)
    elif header is None:
        raise DeniedError(Reason.MISSING)
    else:
        date, token = request.header("x-amz-date") or "", request.header("x-amz-security-token")
        values = {**_from_header(header.strip()), "Date": date.strip(), "Security-Token": token}
    credential = _CREDENTIAL.fullmatch(values["Credential"] or "")
    if credential is None:
        raise DeniedError(
            Reason.INCOMPLETE,
            "Credential must have exactly 5 slash-delimited elements, e.g. "
            f"keyid/date/region/service/aws4_request, got: '{values['Credential']}'",
        )
    key_id, day, region, service = credential.groups()
    headers = tuple((values["SignedHeaders"] or "").split(";"))
    date, signature, token = values["Date"] or "", values["Signature"] or "", values.get("Security-Token")
    return _Signed(key_id, day, region, service, headers, date, signature, token, values.get("Expires"))


def _from_header(header: str) -> Mapping[str, str | None]:
    match = _AUTHORIZATION.fullmatch(header)
    if match is not None:
        return match.groupdict()
    if not header.startswith(f"{_ALGORITHM} "):
        raise DeniedError(Reason.UNSUPPORTED)
    raise DeniedError(
        Reason.INCOMPLETE,
        "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature' parameters.",
    )


def _from_query(request: SentRequest) -> Mapping[str, str | None]:
    prefix = "X-Amz-"
    names = [name for name, _ in request.query_pairs]
    values = {name[len(prefix) :]: value for name, value in request.query_pairs if name.startswith(prefix)}
    if values.get("Algorithm") != _ALGORITHM:
        raise DeniedError(Reason.UNSUPPORTED)
    if len(set(names)) < len(names) or not values.keys() >= set(_PRESIGNED):
        needed = ", ".join(prefix + name for name in _PRESIGNED)
        raise DeniedError(Reason.INCOMPLETE, f"Query-string authentication requires each of {needed} once")
    if _SHA256.fullmatch(values["Signature"]) is None:
        raise DeniedError(Reason.MISMATCH)
    return values


def _check_signature(request: SentRequest, signed: _Signed, secret: str, body_hash: str) -> None:
    """Sign what the client says it has signed, with the secret of its key, and compare."""
    is_s3 = signed.service == S3
    if not is_s3 and request.header(_PAYLOAD_HASH) not in (None, body_hash):
        raise DeniedError(Reason.MISMATCH)
    query = request.query
    if signed.expires is not None:
        pairs = (pair for pair in split_query(query) if pair[0] != "X-Amz-Signature")
        query = "&".join("=".join(pair) for pair in pairs)
    unsigned = AWSRequest(request.method, f"http://localhost{request.path}?{query}")
    unsigned.context["timestamp"] = signed.date
    for name in signed.headers:
        if name not in request.headers:
            raise DeniedError(Reason.MISMATCH)
        for value in request.headers[name]:
            unsigned.headers.add_header(name, value)
    signer = (S3SigV4Auth if is_s3 else SigV4Auth)(
        Credentials(signed.key_id, secret), signed.service, signed.region
    )
    signer.payload = lambda _: body_hash  # the body itself is not kept
    text: str = signer.string_to_sign(unsigned, signer.canonical_request(unsigned))
    if not hmac.compare_digest(signer.signature(text, unsigned), signed.signature):
        raise DeniedError(Reason.MISMATCH)


def _check_body(declared: str, digest: bytes) -> None:
    if not hmac.compare_digest(declared, digest.hex()):
        raise DeniedError(Reason.PAYLOAD_MISMATCH)


def _check_signed_headers(request: SentRequest, signed: _Signed) -> None:
    if "host" not in signed.headers:
        raise DeniedError(Reason.MISMATCH, "'Host' must be a 'SignedHeader' in the AWS Authorization.")
    is_s3 = signed.service == S3
    needed = [name for name in request.headers if name.startswith("x-amz-")] if is_s3 else _DECIDING
    unsigned = [name for name in needed if name in request.headers and name not in signed.headers]
    if unsigned and is_s3:
        raise DeniedError(
            Reason.ACCESS_DENIED,
            f"There were headers present in the request which were not signed: {', '.join(unsigned)}",
        )
    if unsigned:
        raise DeniedError(
            Reason.MISMATCH, f"'{unsigned[0]}' must be a 'SignedHeader' in the AWS Authorization."
        )


def _declared(request: SentRequest, signed: _Signed) -> str:
    """Return the payload hash that an S3 request declares."""
    declared = request.header(_PAYLOAD_HASH)
    if declared is None and signed.expires is not None:
        return _UNSIGNED
    if declared is None:
        raise DeniedError(Reason.MISSING_PAYLOAD_HASH)
    if declared != _UNSIGNED and _SHA256.fullmatch(declared) is None:
        # Bodies in chunks of their own are uploaded over HTTPS only.
        raise DeniedError(
            Reason.UNSUPPORTED if declared.startswith("STREAMING-") else Reason.PAYLOAD_MISMATCH
        )
    return declared
