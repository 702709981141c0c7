"""S3 requests of other accounts than the bucket's owner: the bucket's policy must allow them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse, urlsplit

import flask
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import s3_backends
from moto.s3.responses import ACTION_MAP, S3Response

from tritonstack_local.access.accounts_apart import crossing
from tritonstack_local.access.denials import DeniedError, Reason
from tritonstack_local.access.guard import caller_of
from tritonstack_local.bucket_policies import effective_policy, request_context

_OTHER_SUBRESOURCES = {
    "accelerate", "analytics", "attributes", "encryption", "intelligent-tiering", "inventory", "legal-hold",
    "metrics", "object-lock", "ownershipControls", "publicAccessBlock", "replication", "requestPayment",
    "retention", "torrent",
}  # fmt: skip
"""Subresources that moto's table of actions lacks: only a policy that allows `s3:*` covers them."""
_COPY_SOURCE = "x-amz-copy-source"


def owner_checked(answer: Callable[..., Any], *, of_key: bool) -> Callable[..., Any]:
    """Make a handler of S3 requests that asks the policies of the buckets of other accounts first."""

    def call(response: Any, request: Any, full_url: str) -> Any:
        bucket = response.parse_bucket_name_from_url(request, full_url)
        key = response.parse_key_name() if of_key else ""
        query = parse_qs(urlsplit(full_url).query, keep_blank_values=True)
        for name, action, path in _accesses(request, bucket, key, query):
            _check(response, name, action, path)
        with crossing():
            return answer(response, request, full_url)

    return call


def _accesses(
    request: Any, bucket: str, key: str, query: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """List bucket, action and key of all that a request asks for."""
    if bucket:
        yield bucket, *_action(request.method, key, query)
    source = request.headers.get(_COPY_SOURCE)
    if source:
        # Parsed exactly as moto parses it: another reading would check another object than moto copies.
        parsed = urlparse(source)
        name, _, copied = unquote(parsed.path).lstrip("/").partition("/")
        yield name, "GetObjectVersion" if parsed.query else "GetObject", copied


def _action(method: str, key: str, query: Mapping[str, Any]) -> tuple[str, str]:
    """Return a request's action, and the key that it concerns."""
    if method == "POST" and not key:
        # The keys that are deleted stand in the body: all of the bucket's have to be allowed.
        return ("DeleteObject", "*") if "delete" in query else ("PutObject", "*")
    actions = ACTION_MAP["KEY" if key else "BUCKET"].get(method, {})
    known = [action for name, action in actions.items() if name in query]
    others = [name for name in query if name in _OTHER_SUBRESOURCES and name not in actions]
    if others:
        return f"{method.title()}:{others[0]}", key
    default = actions.get("DEFAULT", f"{method.title()}Object")
    return (known or [default])[0], key


def _check(response: Any, name: str, action: str, key: str) -> None:
    """Deny what the policy of another account's bucket does not allow."""
    partition, owner = s3_backends.bucket_accounts.get(name, ("", response.current_account))
    if owner == response.current_account or action == "CreateBucket":
        return
    with crossing():
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
    # moto lets every account read and change the buckets of all others.
    (S3Response, "_bucket_response", owner_checked(S3Response._bucket_response, of_key=False)),
)
