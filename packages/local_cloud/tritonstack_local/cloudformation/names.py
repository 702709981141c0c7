"""Generate the physical names of resources without a name in the template."""

from __future__ import annotations

import re
import secrets
import string


def new_token() -> str:
    """Return twelve random letters and digits."""
    return "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(12))


def generated_name(
    stack: str, logical_id: str, *, max_length: int, token: str | None = None, lower: bool = False
) -> str:
    """Return `<stack>-<logical id>-<random token>`, cut to the maximum length."""
    suffix = token or new_token()
    room = max_length - len(suffix) - 2
    stack_part = stack[: max(room - len(logical_id), room // 2)]
    name = f"{stack_part}-{logical_id[: room - len(stack_part)]}-{suffix}"
    name = re.sub(r"[^A-Za-z0-9-]", "", name)
    return name.lower() if lower else name
