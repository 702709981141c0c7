"""An AWS account simulated by moto, with credentials."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from tests.moto_aws import simulated_aws


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with simulated_aws():
        yield boto3.client("sts", region_name="eu-west-1").get_caller_identity()["Account"]
