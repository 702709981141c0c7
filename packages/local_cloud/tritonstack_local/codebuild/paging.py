"""The pages of CodeBuild's lists: a hundred each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tritonstack_local.codebuild.faults import invalid_input

PAGE_SIZE = 100


def page(items: Sequence[str], request: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """Give the page that a request asks for, and the token of the next if there is one."""
    token = request.get("nextToken") or "0"
    if not token.isdecimal():
        raise invalid_input("Invalid nextToken")
    start = int(token)
    end = start + PAGE_SIZE
    return list(items[start:end]), str(end) if end < len(items) else None
