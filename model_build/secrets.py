"""Remove secrets from errors, progress, and the output of child processes.

Every ModelBuildError passes through `redact`, so callers may quote program output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

HIDDEN = "***"
SHORTEST = 8
"""Shorter values are not secrets, and replacing them would damage normal text."""

_SECRET_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|ACCESS_KEY|API_KEY|CREDENTIAL", re.IGNORECASE)
_PATTERNS = (
    # user:password@ in a URL, such as a package index
    (re.compile(r"(?<=://)[^/\s@'\"]+@"), f"{HIDDEN}@"),
    # URL signatures
    (
        re.compile(
            r"((?:X-Amz-(?:Signature|Credential|Security-Token)|AWSAccessKeyId|Signature|token|access_token)=)"
            r"[^&\s'\"]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic)\s+)[^\s'\"]+", re.I), rf"\1{HIDDEN}"),
    (re.compile(r"\bhf_[A-Za-z0-9]{16,}\b"), HIDDEN),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
)


def redact(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Replace the values of this process's secrets, and everything that looks like a secret."""
    for name, value in environment.items():
        if len(value) >= SHORTEST and _SECRET_NAMES.search(name) and not _is_path(value):
            text = text.replace(value, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _is_path(value: str) -> bool:
    """Return whether a value is a path: AWS_SHARED_CREDENTIALS_FILE names a file, not a secret."""
    return value.startswith(("/", "~", "."))
