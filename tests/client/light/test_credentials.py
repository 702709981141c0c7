"""The light transport refreshes credentials."""

import datetime
import threading

import boto3
import botocore.session
import pytest
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import (
    NoCredentialsError,
)

from tests.client.light.calls import later, repeatedly
from tritonstack.client.light import LightRuntime


class Rotating:
    """Credentials that expire."""

    def __init__(self, lifetime_s):
        self.lifetime_s, self.given = lifetime_s, 0

    def __call__(self):
        self.given += 1
        expiry = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.lifetime_s)
        return {
            "access_key": f"AKID{self.given}",
            "secret_key": "secret",
            "token": f"token-{self.given}",
            "expiry_time": expiry.isoformat(),
        }

    def session(self):
        core = botocore.session.get_session()
        core._credentials = RefreshableCredentials.create_from_metadata(self(), self, "test")
        return boto3.Session(botocore_session=core)


def test_credentials_are_refreshed_while_the_client_runs(serve, call):
    server, rotating = serve(), Rotating(lifetime_s=3600)
    session = rotating.session()
    runtime = LightRuntime(endpoint_url=server.url, session=session)

    def expire():
        session.get_credentials()._expiry_time = datetime.datetime.now(datetime.UTC)

    repeatedly(runtime, call, 3, between=expire)
    tokens = [request.headers["x-amz-security-token"] for request in server.requests]
    assert tokens == ["token-1", "token-2", "token-3"]


def test_a_refresh_does_not_block_the_event_loop(serve):
    server, rotating = serve(), Rotating(lifetime_s=3600)
    session = rotating.session()
    threads = []
    refresh = session.get_credentials()._refresh_using
    session.get_credentials()._refresh_using = lambda: threads.append(threading.get_ident()) or refresh()
    runtime = LightRuntime(endpoint_url=server.url, session=session)

    def expire():
        session.get_credentials()._expiry_time = datetime.datetime.now(datetime.UTC)

    repeatedly(runtime, later, 3, between=expire)
    assert len(threads) == 2
    assert threading.get_ident() not in threads


def test_no_credentials(serve, call, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    server = serve()
    with pytest.raises(NoCredentialsError):
        call(LightRuntime(endpoint_url=server.url))
    assert not server.requests
