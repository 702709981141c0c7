"""Check S3 POST uploads: the form's policy, signature, and conditions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tritonstack_local.signatures.canonical import ALGORITHM, sign, signing_key
from tritonstack_local.signatures.keys import AccessKey
from tritonstack_local.signatures.requests import DeniedError, Reason
from tritonstack_local.signatures.verifier import parse_credential

_UNCHECKED = {"file", "policy", "signature", "awsaccesskeyid", "x-amz-signature"}


def form_key_id(fields: Mapping[str, str]) -> str:
    """Return the access key id of a signed form."""
    if "x-amz-credential" in fields:
        return parse_credential(fields["x-amz-credential"])[0]
    if "awsaccesskeyid" in fields:
        return fields["awsaccesskeyid"]
    raise DeniedError(Reason.MISSING)


def check_form(fields: Mapping[str, str], *, bucket: str, size: int, key: AccessKey, now: datetime) -> None:
    """Deny a form whose policy is missing, expired, wrongly signed, or violated by its fields.

    `fields` have lower-case names; `size` is that of the file.
    """
    if "policy" not in fields:
        raise DeniedError(Reason.ACCESS_DENIED, "Bucket POST must contain a field named 'policy'.")
    _check_signature(fields, key)
    policy = _policy(fields["policy"])
    if now > _moment(policy):
        raise DeniedError(Reason.ACCESS_DENIED, "Invalid according to Policy: Policy expired.")
    given = {**fields, "bucket": bucket}
    covered: set[str] = set()
    for operator, name, wanted in _conditions(policy):
        covered.add(name)
        if operator == "content-length-range":
            _check_size(size, wanted)
        elif not _OPERATORS[operator](given.get(name, ""), str(wanted)):
            failed = f'["{operator}", "${name}", "{wanted}"]'
            raise DeniedError(
                Reason.ACCESS_DENIED, f"Invalid according to Policy: Policy Condition failed: {failed}"
            )
    extra = [
        name
        for name in fields
        if name not in covered and name not in _UNCHECKED and not name.startswith("x-ignore-")
    ]
    if extra:
        raise DeniedError(
            Reason.ACCESS_DENIED, f"Invalid according to Policy: Extra input fields: {', '.join(extra)}"
        )


def _check_signature(fields: Mapping[str, str], key: AccessKey) -> None:
    policy = fields["policy"]
    if not (policy + fields.get("x-amz-credential", "")).isascii():
        raise DeniedError(Reason.MISMATCH)
    if "x-amz-credential" in fields:
        if fields.get("x-amz-algorithm") != ALGORITHM:
            raise DeniedError(Reason.UNSUPPORTED)
        _, scope = parse_credential(fields["x-amz-credential"])
        expected = sign(signing_key(key.secret, scope.date, scope.region, scope.service), policy)
        given = fields.get("x-amz-signature", "")
    else:
        digest = hmac.digest(key.secret.encode(), policy.encode("latin-1"), hashlib.sha1)
        expected, given = base64.b64encode(digest).decode(), fields.get("signature", "")
    if not hmac.compare_digest(expected.encode(), given.encode()):
        raise DeniedError(Reason.MISMATCH)


def _policy(encoded: str) -> Mapping[str, Any]:
    try:
        policy = json.loads(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        raise DeniedError(Reason.ACCESS_DENIED, "Invalid Policy: Invalid JSON.") from None
    if not isinstance(policy, dict) or not isinstance(policy.get("conditions"), list):
        raise DeniedError(Reason.ACCESS_DENIED, "Invalid Policy: Policy missing conditions.")
    return policy


def _moment(policy: Mapping[str, Any]) -> datetime:
    try:
        moment = datetime.fromisoformat(str(policy.get("expiration", "")))
    except ValueError:
        raise DeniedError(Reason.ACCESS_DENIED, "Invalid Policy: Invalid 'expiration' value.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _conditions(policy: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """List operator, lower-case field and value of each condition."""
    for condition in policy["conditions"]:
        if isinstance(condition, dict):
            yield from (("eq", str(name).lower(), value) for name, value in condition.items())
            continue
        match condition:
            case ["content-length-range", int(least), int(most)]:
                yield "content-length-range", "content-length-range", (least, most)
            case [str(operator), str(name), value] if operator.lower() in _OPERATORS and name.startswith("$"):
                yield operator.lower(), name[1:].lower(), value
            case _:
                raise DeniedError(Reason.ACCESS_DENIED, f"Invalid Policy: Invalid condition: {condition!r}")


def _check_size(size: int, limits: tuple[int, int]) -> None:
    if size < limits[0]:
        raise DeniedError(Reason.ENTITY_TOO_SMALL)
    if size > limits[1]:
        raise DeniedError(Reason.ENTITY_TOO_LARGE)


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {"eq": str.__eq__, "starts-with": str.startswith}
