"""Account numbers of the local cloud. AWS has none of them, so a file cannot name one by mistake.

There are several, so that environments can be in separate accounts, as on AWS.
"""

from __future__ import annotations

EMBEDDED_ACCOUNTS = tuple(f"{number:012}" for number in range(10))
EMBEDDED_ACCOUNT = EMBEDDED_ACCOUNTS[0]
"""The default account."""


def is_embedded(account: str) -> bool:
    """Check whether an account belongs to the local cloud."""
    return account in EMBEDDED_ACCOUNTS


def up_command(account: str, *options: str) -> str:
    """Return the command that starts the local cloud of an account."""
    selected = () if account == EMBEDDED_ACCOUNT else ("--account", account)
    return " ".join(("tritonstack up", *selected, *options))
