"""Verify the signature of a request; return its access key and the check of its body.

Independent of any web server. The body's check decides once it has seen the whole body: services other than
S3 sign the hash of the body, so their signatures are verified only then.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple

from tritonstack_local.signatures import payload as payloads
from tritonstack_local.signatures.canonical import (
    ALGORITHM,
    PATHS_AS_SENT,
    canonical_request,
    sign,
    signing_key,
    string_to_sign,
)
from tritonstack_local.signatures.keys import AccessKey
from tritonstack_local.signatures.payload import (
    AnyPayload,
    ChunkedPayload,
    ChunkSigning,
    HashedPayload,
    Payload,
)
from tritonstack_local.signatures.requests import DeniedError, Reason, SentRequest

MAX_SKEW = timedelta(minutes=15)
MAX_EXPIRES_S = 7 * 24 * 3600

_CLAIM = re.compile(
    rf"{ALGORITHM}\s+Credential=(?P<credential>[^,\s]+)\s*,\s*SignedHeaders=(?P<headers>[^,\s]+)\s*,"
    r"\s*Signature="
)
_SIGNATURE_SIZE = 64
_SIGNATURE = re.compile(rf"[0-9a-f]{{{_SIGNATURE_SIZE}}}")
_CREDENTIAL = re.compile(r"(?P<key>[^/]+)/(?P<date>\d{8})/(?P<region>[^/]*)/(?P<service>[^/]+)/aws4_request")
_DATE = "%Y%m%dT%H%M%SZ"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DECIDING = ("x-amz-target", "x-tritonstack-step")
"""Headers that say what a request does; S3 requires a signature for all of Amazon's headers."""
_PRESIGNED = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")


@dataclass(frozen=True)
class CredentialScope:
    """The scope of a signature."""

    date: str
    region: str
    service: str

    def __str__(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


class BodyCheck(NamedTuple):
    """The signer of a request, and the check that its body must pass."""

    key: AccessKey
    region: str
    service: str
    payload: Payload

    @property
    def is_final(self) -> bool:
        """Whether the signature is verified; only the body remains to be checked."""
        return self.service in PATHS_AS_SENT


class _Claim(NamedTuple):
    """The key of an Authorization header, the key's scope, and the signed headers."""

    key_id: str
    scope: CredentialScope
    headers: Sequence[str]


class _Signed(NamedTuple):
    """The parts of a signature of version 4, from the header or the query."""

    scope: CredentialScope
    key_id: str
    date: str
    headers: Sequence[str]
    signature: str
    token: str | None
    presigned: bool

    @property
    def is_s3(self) -> bool:
        return self.scope.service in PATHS_AS_SENT

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
        if presigned:
            return self._begin_v4(request, _from_query(request))
        if header is None:
            raise DeniedError(Reason.MISSING)
        return self._begin_v4(request, _from_header(request, header))

    def _begin_v4(self, request: SentRequest, signed: _Signed) -> BodyCheck:
        key = self._key(signed.key_id, signed.token)
        self._check_time(request, signed)
        _check_signed_headers(request, signed)
        scope = signed.scope
        scope_text = str(scope)
        day_key = signing_key(key.secret, scope.date, scope.region, scope.service)

        def check_signature(payload: str) -> None:
            canonical = canonical_request(
                request,
                signed=signed.headers,
                payload=payload,
                service=scope.service,
                presigned=signed.presigned,
            )
            expected = sign(day_key, string_to_sign(canonical, date=signed.date, scope=scope_text))
            if not hmac.compare_digest(expected, signed.signature):
                raise DeniedError(Reason.MISMATCH)

        if not signed.is_s3:
            return BodyCheck(key, scope.region, scope.service, HashedPayload(check_signature))
        declared = _declared(request, signed)
        check_signature(declared)
        signing = ChunkSigning(day_key, signed.date, scope_text)
        return BodyCheck(
            key, scope.region, scope.service, _payload(request, declared, signing, signed.signature)
        )

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
        if signed.scope.date != signed.date[:8]:
            raise DeniedError(
                Reason.MISMATCH,
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
                f"'{signed.scope.date}' != '{signed.date[:8]}', from '{signed.date}'.",
            )
        if not signed.presigned:
            if abs(now - moment) > MAX_SKEW:
                raise DeniedError(Reason.SKEWED, _skew(signed, moment, now))
            return
        if moment - now > MAX_SKEW:
            raise DeniedError(Reason.SKEWED, _skew(signed, moment, now))
        if now > moment + timedelta(seconds=_expires(request)):
            raise DeniedError(Reason.PRESIGNED_EXPIRED)


def parse_credential(credential: str) -> tuple[str, CredentialScope]:
    """Split a credential into key id and scope."""
    match = _CREDENTIAL.fullmatch(credential)
    if match is None:
        raise DeniedError(
            Reason.INCOMPLETE,
            "Credential must have exactly 5 slash-delimited elements, e.g. "
            f"keyid/date/region/service/aws4_request, got: '{credential}'",
        )
    return match["key"], CredentialScope(match["date"], match["region"], match["service"])


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
        scope=claim.scope,
        key_id=claim.key_id,
        date=_header_date(request),
        headers=claim.headers,
        signature=signature,
        token=request.header("x-amz-security-token"),
        presigned=False,
    )


@lru_cache(maxsize=1024)
def _claim(text: str) -> _Claim | None:
    """Parse an Authorization header up to its signature. A client sends the same claim all day."""
    match = _CLAIM.fullmatch(text)
    if match is None:
        return None
    key_id, scope = parse_credential(match["credential"])
    return _Claim(key_id, scope, tuple(match["headers"].split(";")))


def _header_date(request: SentRequest) -> str:
    date = request.header("x-amz-date")
    if date is not None:
        return date.strip()
    try:
        return parsedate_to_datetime(request.header("date") or "").astimezone(UTC).strftime(_DATE)
    except (ValueError, OverflowError):  # a date beyond the year 9999 in UTC
        raise DeniedError(
            Reason.INCOMPLETE,
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.",
        ) from None


def _from_query(request: SentRequest) -> _Signed:
    found = {name: request.parameter(f"X-Amz-{name}") for name in _PRESIGNED}
    if found["Algorithm"] != ALGORITHM:
        raise DeniedError(Reason.UNSUPPORTED)
    if None in found.values() or len({name for name, _ in request.query_pairs}) != len(request.query_pairs):
        raise DeniedError(
            Reason.INCOMPLETE,
            "Query-string authentication requires each of "
            f"{', '.join(f'X-Amz-{name}' for name in _PRESIGNED)} once",
        )
    key_id, scope = parse_credential(found["Credential"] or "")
    if _SIGNATURE.fullmatch(found["Signature"] or "") is None:
        raise DeniedError(Reason.MISMATCH)
    return _Signed(
        scope=scope,
        key_id=key_id,
        date=found["Date"] or "",
        headers=(found["SignedHeaders"] or "").split(";"),
        signature=found["Signature"] or "",
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
    if "host" not in signed.headers:
        raise DeniedError(Reason.MISMATCH, "'Host' must be a 'SignedHeader' in the AWS Authorization.")
    if not signed.is_s3:
        for name in _DECIDING:
            if name in request.headers and name not in signed.headers:
                raise DeniedError(
                    Reason.MISMATCH, f"'{name}' must be a 'SignedHeader' in the AWS Authorization."
                )
        return
    unsigned = [name for name in request.headers if name.startswith("x-amz-") and name not in signed.headers]
    if unsigned:
        raise DeniedError(
            Reason.ACCESS_DENIED,
            f"There were headers present in the request which were not signed: {', '.join(unsigned)}",
        )


def _declared(request: SentRequest, signed: _Signed) -> str:
    """Return the payload hash header of an S3 request."""
    declared = request.header("x-amz-content-sha256")
    if declared is None and signed.presigned:
        declared = request.parameter("X-Amz-Content-Sha256") or payloads.UNSIGNED
    if declared is None:
        raise DeniedError(Reason.MISSING_PAYLOAD_HASH)
    known = declared in (payloads.UNSIGNED, *payloads.STREAMED)
    if not known and _SHA256.fullmatch(declared) is None:
        if declared.startswith(payloads.STREAMING):
            raise DeniedError(Reason.UNSUPPORTED)
        raise DeniedError(Reason.PAYLOAD_MISMATCH)
    return declared


def _payload(request: SentRequest, declared: str, signing: ChunkSigning, seed: str) -> Payload:
    if declared == payloads.UNSIGNED:
        return AnyPayload()
    if declared not in payloads.STREAMED:
        return HashedPayload(payloads.equal_to(declared))
    length = request.header("x-amz-decoded-content-length") or ""
    if not length.isascii() or not length.isdigit():
        raise DeniedError(Reason.INCOMPLETE, "You must provide the x-amz-decoded-content-length HTTP header.")
    return ChunkedPayload(
        None if declared == payloads.STREAMING_UNSIGNED_TRAILER else signing,
        seed=seed,
        length=int(length),
        has_trailer=declared != payloads.STREAMING_SIGNED,
    )


def _skew(signed: _Signed, moment: datetime, now: datetime) -> str | None:
    if signed.is_s3:
        return None
    shown = now.strftime(_DATE)
    if moment < now:
        limit = (now - MAX_SKEW).strftime(_DATE)
        return f"Signature expired: {signed.date} is now earlier than {limit} ({shown} - 15 min.)"
    limit = (now + MAX_SKEW).strftime(_DATE)
    return f"Signature not yet current: {signed.date} is still later than {limit} ({shown} + 15 min.)"
