"""Where moto has to behave differently to stand for AWS here. Each correction says why it is needed."""

from __future__ import annotations

import json
from typing import Any

import flask
import moto.iam.models as iam_models
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models.vpcs import VPCBackend
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.iam.policy_validation import IAMTrustPolicyDocumentValidator
from moto.s3.exceptions import S3ClientError
from moto.s3.models import FakeBucket, S3Backend
from moto.s3.responses import S3Response

from local_cloud.accounts import account_in_key, read_credential
from local_cloud.bucket_policies import (
    RequestContext,
    UnsupportedPolicyError,
    check_policy,
    effective_policy,
    request_context,
)

_move_vpc_endpoint = VPCBackend.modify_vpc_endpoint
_put_bucket_policy = S3Backend.put_bucket_policy
_answer_head_object = S3Response.head_object
_default_account = DEFAULT_ACCOUNT_ID


def apply(*, account_id: str) -> None:
    """Correct moto for a cloud whose callers act in `account_id` unless their key says otherwise."""
    global _default_account  # noqa: PLW0603 - moto's own state is global too
    _default_account = account_id
    for owner, name, replacement in _CORRECTIONS:
        setattr(owner, name, replacement)


def account_of(access_key: str) -> str:
    """Return the account that an access key belongs to."""
    named = account_in_key(access_key)
    if named is not None:
        return named
    for account_id, partitions in list(iam_models.iam_backends.items()):
        # Asked for without making it: every backend that is made loads all of AWS's managed policies.
        backend = partitions.get("aws")
        if backend is not None and access_key in backend.access_keys:
            return account_id
    return _default_account


def _get_permission(bucket: Any, action: str, resource: str) -> PermissionResult:
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    policy = effective_policy(json.loads(bucket.policy), _context_of_request())
    # moto makes actions of HTTP's methods; S3 has no such ones for these two.
    named = {"s3:HeadObject": "s3:GetObject", "s3:PostObject": "s3:PutObject"}.get(action, action)
    return IAMPolicy(json.dumps(policy)).is_action_permitted(named, resource)


def _context_of_request() -> RequestContext:
    headers = {name.lower(): value for name, value in flask.request.headers.items()}
    credential = read_credential(
        headers=dict(flask.request.headers.items()), query=flask.request.query_string.decode()
    )
    return request_context(account=account_of(credential.access_key) if credential else None, headers=headers)


def _put_checked_bucket_policy(backend: Any, bucket_name: str, policy: bytes) -> None:
    try:
        check_policy(json.loads(policy))
    except (json.JSONDecodeError, KeyError) as error:
        raise S3ClientError("MalformedPolicy", "Policies must be valid JSON") from error
    except UnsupportedPolicyError as error:
        raise S3ClientError("NotImplemented", str(error)) from error
    _put_bucket_policy(backend, bucket_name, policy)


def _head_object(
    response: Any, bucket_name: str, query: dict[str, Any], key_name: str, headers: dict[str, Any]
) -> Any:
    status, answered, body = _answer_head_object(response, bucket_name, query, key_name, headers)
    version = query.get("versionId", [None])[0]
    key = response.backend.head_object(bucket_name, key_name, version_id=version) if status == 200 else None
    if key is not None and key.checksum_type == "COMPOSITE":
        name = f"x-amz-checksum-{key.checksum_algorithm.lower()}"
        if name in answered:
            answered[name] = f"{key.checksum_value}-{key.checksum_parts}"
            answered["x-amz-checksum-type"] = key.checksum_type
    return status, answered, body


def _modify_vpc_endpoint(
    backend: Any, vpc_id: str, policy_doc: str, *lists: Any, **named_lists: list[str] | None
) -> None:
    _move_vpc_endpoint(backend, vpc_id, policy_doc, *lists, **named_lists)
    endpoint = backend.vpc_end_points[vpc_id]
    prefix_list = endpoint.destination_prefix_list_id
    if prefix_list is None:
        return
    for table_id, table in backend.route_tables.items():
        routed = any(route.gateway and route.gateway.id == vpc_id for route in table.routes)
        if routed and table_id not in endpoint.route_table_ids:
            backend.delete_route(table_id, prefix_list)
        elif not routed and table_id in endpoint.route_table_ids:
            backend.create_route(table_id, None, gateway_id=vpc_id, destination_prefix_list_id=prefix_list)


_CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    # moto puts unknown keys into the account 123456789012, knows no key that names an account, and looks an
    # issued one up in every partition of every account, all of which it makes for that.
    (iam_models, "get_account_id_from", account_of),
    # moto enforces bucket policies but ignores their conditions: a TLS-only policy would deny everything.
    (FakeBucket, "get_permission", _get_permission),
    (S3Backend, "put_bucket_policy", _put_checked_bucket_policy),
    # moto forgets the routes when a gateway endpoint leaves one table for another; it cannot go then.
    (VPCBackend, "modify_vpc_endpoint", _modify_vpc_endpoint),
    # moto's HeadObject gives the checksum of an upload in parts as if it were that of the whole object.
    (S3Response, "head_object", _head_object),
    # moto asks for the log bucket's permissions when logging is set up; AWS does so when it delivers. The CDK
    # grants them in a policy that is made later.
    (FakeBucket, "_log_permissions_enabled_policy", lambda _bucket, **_: True),
    # moto's PutMetricAlarm knows composite alarms, but the action that makes them is missing.
    (CloudWatchResponse, "put_composite_alarm", CloudWatchResponse.put_metric_alarm),
    # moto wants a Version in updated trust policies; AWS takes them without, and the CDK's roles have none.
    (IAMTrustPolicyDocumentValidator, "_validate_version", lambda _validator: None),
)
