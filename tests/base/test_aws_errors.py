"""The code and the message of AWS errors, whichever part of the SDK raised them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ReadTimeoutError,
)

from tritonstack.base.errors import aws_error_code, aws_error_message

ROOT = Path(__file__).resolve().parents[2]
URL = "https://s3.eu-west-1.amazonaws.com"


def test_code_and_message_are_those_of_the_reply() -> None:
    error = ClientError({"Error": {"Code": "NoSuchKey", "Message": "no such key"}}, "GetObject")
    assert (aws_error_code(error), aws_error_message(error)) == ("NoSuchKey", "no such key")


@pytest.mark.parametrize(
    "error",
    [
        HTTPClientError(error="reset"),
        ReadTimeoutError(endpoint_url=URL),
        ConnectionClosedError(endpoint_url=URL),
        EndpointConnectionError(endpoint_url=URL),
        NoCredentialsError(),
        ClientError({}, "GetObject"),
        OSError("disk"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_without_a_reply_have_neither(error: Exception) -> None:
    assert (aws_error_code(error), aws_error_message(error)) == ("", "")


def test_errors_are_told_apart_by_their_code():
    """The classes in `client.exceptions` are made at their first use, and two threads can make them twice."""
    named = re.compile(r"\.exceptions\.[A-Z]\w+")
    folders = ("tritonstack", "stacks", "model_build", "packages")
    files = [
        file for folder in folders for file in (ROOT / folder).rglob("*.py") if "tests" not in file.parts
    ]
    assert len(files) > 300
    assert [file for file in files if named.search(file.read_text())] == []
