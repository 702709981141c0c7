"""A whole embedded cloud in this process, without a Triton: endpoints that come up do so with a stand-in."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from local_cloud.accounts import access_key_for
from local_cloud.sagemaker import SageMakerApp
from local_cloud.sagemaker.app import Surroundings
from local_cloud.sagemaker.servers import ServerOrder
from local_cloud.server import Cloud
from local_cloud.settings import CloudSettings
from tests.local_cloud.sagemaker.cloud import FakeTritons
from tests.local_cloud.sagemaker.multi_model_triton import MultiModelTriton

REGION = "eu-west-1"
_accounts = itertools.count(200000000000)
_session = boto3.Session()


@dataclass(frozen=True)
class Account:
    """An account of its own in the cloud that the tests share."""

    endpoint_url: str
    account_id: str = field(default_factory=lambda: str(next(_accounts)))
    region: str = REGION

    def client(self, service: str) -> Any:
        return _client(service, self.endpoint_url, self.account_id, self.region)


@cache
def _client(service: str, endpoint_url: str, account_id: str, region: str) -> Any:
    return _session.client(
        service,
        endpoint_url=endpoint_url,
        region_name=region,
        aws_access_key_id=access_key_for(account_id),
        aws_secret_access_key="x",
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


@pytest.fixture(scope="session")
def fake_tritons() -> FakeTritons:
    return FakeTritons()


@pytest.fixture(scope="session")
def running_cloud(tmp_path_factory: pytest.TempPathFactory, fake_tritons: FakeTritons) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("cloud")

    def make_app(*, surroundings: Surroundings, server_home: Path) -> SageMakerApp:
        del server_home
        return SageMakerApp(surroundings=surroundings, start_server=start)

    def start(order: ServerOrder) -> Any:
        if order.environment.get("SAGEMAKER_MULTI_MODEL") == "true":
            return MultiModelTriton(order)
        return fake_tritons(order)

    listener = socket.create_server(("127.0.0.1", 0))
    settings = CloudSettings(state_dir=folder, server_home=folder, account_id="111122223333", region=REGION)
    cloud = Cloud(settings=settings, listener=listener, make_sagemaker=make_app)
    yield cloud
    fake_tritons.released.set()
    cloud.close()


@pytest.fixture
def account(running_cloud: Cloud) -> Account:
    return Account(running_cloud.endpoint_url)
