"""Correct moto's KMS: the forms of `KeyId` that each operation accepts, and the key's ARN in responses.

moto fails with an internal error for ARNs in some operations, and for unknown keys in those on grants.
Operations that manage a key take its id or ARN; cryptographic operations and DescribeKey also take aliases.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from moto.kms.responses import KmsResponse

from tritonstack.base.files import parse_json

KEY_OPERATIONS = (
    "cancel_key_deletion", "create_grant", "disable_key", "disable_key_rotation", "enable_key",
    "enable_key_rotation", "get_key_policy", "get_key_rotation_status", "list_aliases", "list_grants",
    "list_key_policies", "list_key_rotations", "list_resource_tags", "put_key_policy", "replicate_key",
    "retire_grant", "revoke_grant", "rotate_key_on_demand", "schedule_key_deletion", "tag_resource",
    "untag_resource", "update_key_description",
)  # fmt: skip
"""Operations whose `KeyId` is a key's id or ARN."""
ARN_IN_RESPONSE = (
    "cancel_key_deletion", "generate_mac", "get_public_key", "schedule_key_deletion", "verify_mac",
)  # fmt: skip
"""Operations that return the key's ARN on AWS, and another form in moto."""

Answer = Callable[[Any], str]


def _with_key_id(answer: Answer) -> Answer:
    """Reject aliases and unknown keys, and replace an ARN by the key's id."""

    def checked(response: Any) -> str:
        parameters = parse_json(response.body)
        if key := parameters.get("KeyId"):
            response._validate_cmk_id(key)
            response.body = json.dumps({**parameters, "KeyId": response.kms_backend.get_key_id(key)})
        return answer(response)

    return checked


def _with_arn(answer: Answer) -> Answer:
    """Return the key's ARN in the response."""

    def completed(response: Any) -> str:
        result = parse_json(answer(response))
        key = response.kms_backend.describe_key(result["KeyId"])
        return json.dumps({**result, "KeyId": key.arn})

    return completed


def _corrected(name: str) -> Answer:
    answer: Answer = getattr(KmsResponse, name)
    if name in KEY_OPERATIONS:
        answer = _with_key_id(answer)
    return _with_arn(answer) if name in ARN_IN_RESPONSE else answer


CORRECTIONS: tuple[tuple[Any, str, Any], ...] = tuple(
    (KmsResponse, name, _corrected(name)) for name in sorted({*KEY_OPERATIONS, *ARN_IN_RESPONSE})
)
