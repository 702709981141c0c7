"""An S3 that changes an object between two calls of the code under test, as another writer does."""

from collections.abc import Callable
from typing import Any

import botocore.client
import pytest

from tests.operate.strict_aws import client_error


def change_after(
    monkeypatch: pytest.MonkeyPatch, operation: str, name: str, change: Callable[[], object]
) -> list[str]:
    """Call `change` once, right after the first `operation` on an object of this name; list all calls.

    moto copies whatever the condition of a copy says, so that it is enforced here.
    """
    calls: list[str] = []
    changes = [change]
    real = botocore.client.BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(client: Any, called: str, parameters: dict[str, Any]) -> Any:
        source = parameters.get("CopySource")
        if source and "CopySourceIfMatch" in parameters:
            head = real(client, "HeadObject", dict(source))
            if head["ETag"] != parameters["CopySourceIfMatch"]:
                raise client_error(called, "PreconditionFailed", "changed since it was read")
        try:
            return real(client, called, parameters)
        finally:
            calls.append(called)
            if called == operation and parameters.get("Key", "").endswith(name) and changes:
                changes.pop()()

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", call)
    return calls
