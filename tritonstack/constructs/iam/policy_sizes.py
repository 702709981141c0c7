"""Check IAM policy sizes at synthesis.

IAM rejects larger policies only at deployment. White space does not count:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tritonstack.base.error_kinds import ConstructError

MANAGED_POLICY = 6_144
INLINE_POLICIES = 10_240
"""The limit for all inline policies of one role together."""
TRUST_POLICY = 2_048
"""The default quota; AWS raises it on request."""


def policy_size(document: Mapping[str, object]) -> int:
    """Return the number of characters that IAM counts."""
    return len(json.dumps(document, separators=(",", ":"), ensure_ascii=False))


def check_policy_size(subject: str, document: Mapping[str, object], *, limit: int) -> None:
    """Reject a policy that exceeds IAM's size limit."""
    size = policy_size(document)
    if size > limit:
        raise ConstructError(
            f"{subject} has {size:,} characters; IAM allows at most {limit:,}",
            remedy="shorten name, name_prefix, permissions_boundary, or the values of the tags project and "
            "environment; or split the environment",
        )
