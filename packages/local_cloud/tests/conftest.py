"""A local cloud in this process, with fake Triton servers."""

import itertools
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto.core.base_backend import BackendDict
from moto.s3.models import s3_backends

from packages.local_cloud.tests.sagemaker.fakes import FakeTritons
from packages.local_cloud.tests.sagemaker.servers.fake_triton import MultiModelTriton
from tests.credentials import keys_of, register, variables_of
from tritonstack_local.access.own_routes import read_inventory
from tritonstack_local.sagemaker import SageMakerApp
from tritonstack_local.sagemaker.dependencies import Dependencies
from tritonstack_local.sagemaker.servers.server import ServerOrder
from tritonstack_local.server import LocalCloud, MakeSageMaker
from tritonstack_local.settings import DEFAULT_TIME_SCALE, CloudSettings, TimeScale
from tritonstack_local.state import writer

REGION = "eu-west-1"
TRUST_ANYONE = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}],
    }
)
_accounts = itertools.count(200000000000)
_session = boto3.Session()


@dataclass(frozen=True)
class Account:
    """A new account in the shared cloud."""

    endpoint_url: str
    account_id: str = field(default_factory=lambda: str(next(_accounts)))
    region: str = REGION

    def client(self, service: str) -> Any:
        keys = keys_of(self.endpoint_url, self.account_id)
        return _client(service, self.endpoint_url, self.region, *keys.values())

    def session(self) -> boto3.Session:
        return boto3.Session(**keys_of(self.endpoint_url, self.account_id), region_name=self.region)

    def inventory(self) -> list[dict[str, Any]]:
        """Return every resource in this account."""
        items = read_inventory(variables_of(self.endpoint_url, self.account_id, region=self.region))
        return [item for item in items if item["account"] == self.account_id]


@cache
def _client(service: str, endpoint_url: str, region: str, key_id: str, secret: str) -> Any:
    return _session.client(
        service,
        endpoint_url=endpoint_url,
        region_name=region,
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        config=Config(
            retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, max_pool_connections=32
        ),
    )


def start_cloud(
    folder: Path,
    make_sagemaker: MakeSageMaker,
    *,
    account_id: str = "111122223333",
    server_home: Path | None = None,
    time_scale: TimeScale = DEFAULT_TIME_SCALE,
) -> LocalCloud:
    """Start a cloud with what is kept in its folder; moto forgets the clouds before it in this process."""
    for services in BackendDict._instances:
        services.clear()
    s3_backends.bucket_accounts.clear()
    settings = CloudSettings(
        state_dir=folder,
        server_home=server_home or folder,
        account_id=account_id,
        region=REGION,
        time_scale=time_scale,
    )
    listener = socket.create_server(("127.0.0.1", 0))
    cloud = LocalCloud(settings=settings, listener=listener, make_sagemaker=make_sagemaker)
    register(cloud.endpoint_url, cloud.secret)
    return cloud


class SharedCloud:
    """The shared cloud, created on first use.

    moto and what is corrected in it belong to the process, so that one cloud at a time can live there: who
    starts another one ends this one first.
    """

    def __init__(self) -> None:
        self.tritons = FakeTritons()
        self.parent: Path | None = None
        self._made = 0
        self._cloud: LocalCloud | None = None

    def get(self) -> LocalCloud:
        if self._cloud is None:
            assert self.parent is not None
            self._made += 1
            folder = self.parent / str(self._made)
            # Alarms and rollouts are fast.
            self._cloud = start_cloud(folder, self._make_sagemaker, time_scale=TimeScale(minute_s=0.2))
        return self._cloud

    def end(self) -> None:
        if self._cloud is not None:
            self._cloud.close()
            self._cloud = None

    def _make_sagemaker(self, *, dependencies: Dependencies, server_home: Path) -> SageMakerApp:
        del server_home
        return SageMakerApp(dependencies=dependencies, start_server=self._start)

    def _start(self, order: ServerOrder) -> Any:
        if order.environment.get("SAGEMAKER_MULTI_MODEL") == "true":
            return MultiModelTriton(order)
        return self.tritons(order)


SHARED = SharedCloud()


@pytest.fixture(scope="session", autouse=True)
def _state_of_hundreds_of_accounts_is_saved_at_the_end() -> None:
    writer.REST_S = writer.LONGEST_S = 3600.0


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedCloud]:
    SHARED.parent = tmp_path_factory.mktemp("clouds")
    yield SHARED
    SHARED.tritons.released.set()
    SHARED.end()


@pytest.fixture
def fake_tritons(shared: SharedCloud) -> FakeTritons:
    return shared.tritons


@pytest.fixture
def running_cloud(shared: SharedCloud) -> LocalCloud:
    return shared.get()


@pytest.fixture
def account(running_cloud: LocalCloud) -> Account:
    return Account(running_cloud.endpoint_url)
