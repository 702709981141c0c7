"""The accounts that the embedded cloud plays. AWS has none of them, so no file can mean one by mistake.

Several, so that environments can lie in accounts of their own here as they do on AWS.
"""

from __future__ import annotations

EMBEDDED_ACCOUNTS = tuple(f"{number:012}" for number in range(10))
EMBEDDED_ACCOUNT = EMBEDDED_ACCOUNTS[0]
"""The one that is meant where none is named."""


def is_embedded(account: str) -> bool:
    """Whether environments in an account live in the embedded cloud."""
    return account in EMBEDDED_ACCOUNTS
