"""Stand-ins of AWS clients that answer with one error."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from tritonstack.operations.aws import Cloud


def client_error(operation: str, code: str, message: str) -> ClientError:
    """An error of AWS."""
    facts: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return ClientError(facts, operation)


class Rejecting:
    """A client, or a cloud, all of whose calls fail with one error."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        self._error = client_error(operation, code, message)

    def client(self, _: str) -> Rejecting:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "exceptions":
            raise AttributeError(name)

        def call(**_: Any) -> None:
            raise self._error

        return call


CLOUD = Cloud(
    "111111111111",
    "eu-west-1",
    {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-west-1"},
)
