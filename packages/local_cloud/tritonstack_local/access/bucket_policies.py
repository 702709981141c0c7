"""Evaluate bucket policies, and enforce them for callers from other accounts."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse, urlsplit

import flask
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import s3_backends
from moto.s3.responses import ACTION_MAP, S3Response

from tritonstack_local.access.account_isolation import all_accounts
from tritonstack_local.access.guard import caller_of
from tritonstack_local.signatures.requests import DeniedError, Reason

# Condition values of every request. Loopback counts as secure transport: no other machine can read it.
# Services call S3 only as the account they work for.
_ALWAYS = {"aws:securetransport": "true", "s3:tlsversion": "1.3", "aws:principalisawsservice": "false"}
_ACCOUNT = "aws:principalaccount"
_HEADERS = ("x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id")
_KEYS = {*_ALWAYS, _ACCOUNT, *(f"s3:{header}" for header in _HEADERS)}

_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "Bool": lambda actual, wanted: actual == wanted.lower(),
    "StringEquals": lambda actual, wanted: actual == wanted,
    "NumericLessThan": lambda actual, wanted: float(actual) < float(wanted),
    "NumericGreaterThanEquals": lambda actual, wanted: float(actual) >= float(wanted),
}
_NEGATED = {"StringNotEquals": "StringEquals"}
_PRESENCE = "Null"

RequestContext = Mapping[str, str]
"""Condition keys of a request with their values; keys without value are absent."""


def request_context(*, account: str | None, headers: Mapping[str, str]) -> RequestContext:
    """Return the condition values of a request of `account`; None for anonymous requests."""
    sent = {f"s3:{header}": headers[header] for header in _HEADERS if header in headers}
    return {**_ALWAYS, **sent, **({_ACCOUNT: account} if account else {})}


class UnsupportedPolicyError(Exception):
    """A policy that the local cloud cannot evaluate."""


def check_policy(policy: Mapping[str, Any]) -> None:
    """Raise UnsupportedPolicyError for a Deny statement that the local cloud cannot evaluate."""
    for statement in _statements(policy):
        if statement.get("Effect") != "Deny" or _only_services(statement):
            continue
        if not _everyone(statement):
            raise UnsupportedPolicyError(
                f"bucket policy statement {statement.get('Sid', '')!r} denies single principals; "
                "the local cloud evaluates Deny for everyone only"
            )
        unknown = list(_unknown_conditions(statement))
        if unknown:
            raise UnsupportedPolicyError(
                f"bucket policy statement {statement.get('Sid', '')!r} depends on {', '.join(unknown)}, "
                "which the local cloud cannot evaluate"
            )


def effective_policy(
    policy: Mapping[str, Any],
    context: RequestContext,
    *,
    principals: Collection[str] = (),
    public: bool = True,
) -> dict[str, Any]:
    """Return the statements that apply to a request, without their conditions.

    They apply to everyone or to one of `principals`. Unless `public`, statements that allow everyone are
    ignored.
    """
    concerning = [
        {key: value for key, value in statement.items() if key != "Condition"} | {"Principal": "*"}
        for statement in _statements(policy)
        if _concerns(statement, principals, public=public)
        and not list(_unknown_conditions(statement))
        and _holds(statement, context)
    ]
    return {**policy, "Statement": concerning}


def _statements(policy: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    statements = policy["Statement"]
    return list(statements) if isinstance(statements, list) else [statements]


def _everyone(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal")
    return principal == "*" or (isinstance(principal, Mapping) and principal.get("AWS") in ("*", ["*"]))


def _concerns(statement: Mapping[str, Any], principals: Collection[str], *, public: bool) -> bool:
    if _everyone(statement):
        return public or statement.get("Effect") == "Deny"
    principal = statement.get("Principal")
    named = principal.get("AWS", []) if isinstance(principal, Mapping) else []
    return not {*principals}.isdisjoint([named] if isinstance(named, str) else named)


def _only_services(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal")
    return isinstance(principal, Mapping) and set(principal) == {"Service"}


def _conditions(statement: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    for operator, tests in statement.get("Condition", {}).items():
        for key, wanted in tests.items():
            yield operator, key, [str(value) for value in (wanted if isinstance(wanted, list) else [wanted])]


def _unknown_conditions(statement: Mapping[str, Any]) -> Iterator[str]:
    known = {*_OPERATORS, *_NEGATED, _PRESENCE}
    for operator, key, _ in _conditions(statement):
        if operator not in known or key.lower() not in _KEYS:
            yield f"{operator} {key}"


def _holds(statement: Mapping[str, Any], context: RequestContext) -> bool:
    return all(
        _matches(operator, context.get(key.lower()), wanted)
        for operator, key, wanted in _conditions(statement)
    )


def _matches(operator: str, actual: str | None, wanted: list[str]) -> bool:
    """Compare as IAM does: an absent value equals nothing."""
    if operator == _PRESENCE:
        return str(actual is None).lower() in [value.lower() for value in wanted]
    if operator in _NEGATED:
        return not _matches(_NEGATED[operator], actual, wanted)
    return actual is not None and any(_OPERATORS[operator](actual, value) for value in wanted)


_OTHER_SUBRESOURCES = {
    "accelerate", "analytics", "attributes", "encryption", "intelligent-tiering", "inventory", "legal-hold",
    "metrics", "object-lock", "ownershipControls", "publicAccessBlock", "replication", "requestPayment",
    "retention", "torrent",
}  # fmt: skip
"""Subresources that moto's table of actions lacks: only a policy that allows `s3:*` covers them."""
_COPY_SOURCE = "x-amz-copy-source"


def owner_checked(answer: Callable[..., Any], *, of_key: bool) -> Callable[..., Any]:
    """Return a handler of S3 requests that first evaluates the policies of other accounts' buckets."""

    def call(response: Any, request: Any, full_url: str) -> Any:
        bucket = response.parse_bucket_name_from_url(request, full_url)
        key = response.parse_key_name() if of_key else ""
        query = parse_qs(urlsplit(full_url).query, keep_blank_values=True)
        for name, action, path in _accesses(request, bucket, key, query):
            _check(response, name, action, path)
        with all_accounts():
            return answer(response, request, full_url)

    return call


def _accesses(
    request: Any, bucket: str, key: str, query: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """List bucket, action, and key of everything a request accesses."""
    if bucket:
        yield bucket, *_action(request.method, key, query)
    source = request.headers.get(_COPY_SOURCE)
    if source:
        # Parsed exactly as in moto; otherwise the checked object could differ from the copied one.
        parsed = urlparse(source)
        name, _, copied = unquote(parsed.path).lstrip("/").partition("/")
        yield name, "GetObjectVersion" if parsed.query else "GetObject", copied


def _action(method: str, key: str, query: Mapping[str, Any]) -> tuple[str, str]:
    """Return a request's action and key."""
    if method == "POST" and not key:
        # The keys to delete are in the body: all keys of the bucket must be allowed.
        return ("DeleteObject", "*") if "delete" in query else ("PutObject", "*")
    actions = ACTION_MAP["KEY" if key else "BUCKET"].get(method, {})
    known = [action for name, action in actions.items() if name in query]
    others = [name for name in query if name in _OTHER_SUBRESOURCES and name not in actions]
    if others:
        return f"{method.title()}:{others[0]}", key
    default = actions.get("DEFAULT", f"{method.title()}Object")
    return (known or [default])[0], key


def _check(response: Any, name: str, action: str, key: str) -> None:
    """Deny requests that another account's bucket policy does not allow."""
    partition, owner = s3_backends.bucket_accounts.get(name, ("", response.current_account))
    if owner == response.current_account or action == "CreateBucket":
        return
    with all_accounts():
        bucket = s3_backends[owner][partition].buckets[name]
    if bucket.policy is not None:
        caller = caller_of(flask.request.environ)
        headers = {name.lower(): value for name, value in flask.request.headers.items()}
        context = request_context(account=caller.account, headers=headers)
        principals = {caller.principal, caller.account, f"arn:{partition}:iam::{caller.account}:root"}
        block = bucket.public_access_block
        policy = effective_policy(
            json.loads(bucket.policy),
            context,
            principals=principals,
            public=not (block and block.restrict_public_buckets),
        )
        resource = f"arn:{partition}:s3:::{name}" + (f"/{key}" if key else "")
        permission = IAMPolicy(json.dumps(policy)).is_action_permitted(f"s3:{action}", resource)
        if permission == PermissionResult.PERMITTED:
            return
    raise DeniedError(Reason.ACCESS_DENIED)


CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    # moto lets every account read and change all buckets.
    (S3Response, "_bucket_response", owner_checked(S3Response._bucket_response, of_key=False)),
)
