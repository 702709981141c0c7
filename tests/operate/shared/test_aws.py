"""What counts as absent in AWS, and calls in parallel."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.operate.strict_aws import OnePage, client_error
from tritonstack.operate.shared.artifacts import has_bucket, may_have_bucket
from tritonstack.operate.shared.aws import Cloud, if_present, is_absent, list_if_present

ABSENT = [
    ("DescribeStacks", "ValidationError", "Stack with id x does not exist"),
    ("DescribeEndpoint", "ValidationException", 'Could not find endpoint "x".'),
    ("DescribeProcessingJob", "ResourceNotFound", "Could not find requested job with name: x"),
    ("DescribeImages", "ImageNotFoundException", "The image does not exist within the repository"),
    ("DescribeImages", "RepositoryNotFoundException", "The repository does not exist in the registry"),
    ("HeadObject", "404", "Not Found"),
    ("GetObject", "NoSuchKey", "The specified key does not exist."),
    ("ListObjectsV2", "NoSuchBucket", "The specified bucket does not exist"),
    ("GetParameter", "ParameterNotFound", ""),
    ("DescribeKey", "NotFoundException", "Key x does not exist"),
    ("ListRoleTags", "NoSuchEntity", "The role with name x cannot be found."),
    ("DeleteLogGroup", "ResourceNotFoundException", "The specified log group does not exist."),
]
PRESENT = [
    *(
        (operation, code, message)
        for code in ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403", "Forbidden")
        for operation, _, message in ABSENT
    ),
    ("DescribeStacks", "ValidationError", "1 validation error detected"),
    ("UpdateEndpoint", "ValidationException", "Cannot update in-progress endpoint"),
    ("DescribeStacks", "Throttling", "Rate exceeded"),
    ("GetObject", "InternalError", "the key does not exist, or could not find it"),
    ("DescribeStacks", "ExpiredToken", "The security token included in the request is expired"),
]


def raising(error: ClientError) -> Any:
    def call(**_: object) -> dict[str, Any]:
        raise error

    return call


class Pages:
    """A client whose listings fail."""

    def __init__(self, error: ClientError) -> None:
        self._error = error

    def get_paginator(self, _: str) -> OnePage:
        return OnePage(raising(self._error))


@pytest.mark.parametrize("absent", ABSENT)
def test_what_does_not_exist_is_absent(absent: tuple[str, str, str]) -> None:
    error = client_error(*absent)
    assert is_absent(error)
    assert if_present(raising(error), Name="x") is None
    assert list_if_present(Pages(error), "list_things", "Things") == []


@pytest.mark.parametrize("present", PRESENT)
def test_another_error_never_reads_as_absent(present: tuple[str, str, str]) -> None:
    error = client_error(*present)
    assert not is_absent(error)
    for call in (
        lambda: if_present(raising(error), Name="x"),
        lambda: list_if_present(Pages(error), "list_things", "Things"),
    ):
        with pytest.raises(ClientError):
            call()


@pytest.mark.parametrize("code", ["AccessDenied", "NoSuchBucket", "InternalError"])
def test_a_denied_bucket_may_exist(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Denied:
        list_objects_v2 = staticmethod(raising(client_error("ListObjectsV2", code, "")))

    monkeypatch.setattr(Cloud, "client", lambda *_: Denied())
    cloud = Cloud("1", "us-east-1", {})
    if code == "NoSuchBucket":
        assert not has_bucket(cloud, "b")
        assert not may_have_bucket(cloud, "b")
        return
    with pytest.raises(ClientError):
        has_bucket(cloud, "b")
    if code == "AccessDenied":
        assert may_have_bucket(cloud, "b")
    else:
        with pytest.raises(ClientError):
            may_have_bucket(cloud, "b")
