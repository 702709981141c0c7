"""Sessions and a clean environment for the light transport's tests."""

import os

import boto3
import botocore.loaders
import pytest

from tests.client.light.calls import later, now

LOADER = botocore.loaders.create_loader()
"""Reads botocore's models once for the sessions of all tests."""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """No AWS configuration of this machine; boto3's default session is new."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "verysecret")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setattr(botocore.loaders, "create_loader", lambda *_: LOADER)


@pytest.fixture(params=[now, later], ids=["threads", "asyncio"])
def call(request):
    return request.param
