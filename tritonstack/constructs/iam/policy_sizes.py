"""The sizes that IAM allows a policy, checked when a stack is synthesized.

IAM rejects a larger policy only during the deploy. It counts no white space:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tritonstack.base.errors import UsageError

MANAGED_POLICY = 6_144
INLINE_POLICIES = 10_240
"""Of all inline policies of one role together."""
TRUST_POLICY = 2_048
"""The default quota; AWS raises it on request to 4,096."""


def policy_size(document: Mapping[str, object]) -> int:
    """Count the characters of a policy as IAM does."""
    return len(json.dumps(document, separators=(",", ":"), ensure_ascii=False))


def check_policy_size(what: str, document: Mapping[str, object], *, limit: int) -> None:
    """Refuse a policy that IAM would reject as too large."""
    size = policy_size(document)
    if size > limit:
        raise UsageError(
            f"{what} would have {size:,} characters, and IAM allows {limit:,}",
            remedy="shorten name, name_prefix, permissions_boundary, or the values of the tags project and "
            "environment; or split the environment",
        )
