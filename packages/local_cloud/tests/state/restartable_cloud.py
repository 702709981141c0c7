"""A cloud that tests restart; moto's memory is cleared in between."""

import itertools
import socket
from pathlib import Path

from moto.core.base_backend import BackendDict
from moto.s3.models import s3_backends

from packages.local_cloud.tests.conftest import REGION, SHARED, Account
from packages.local_cloud.tests.sagemaker.cloud import FakeTritons
from tests.credentials import register
from tritonstack_local.sagemaker import SageMakerApp
from tritonstack_local.server import LocalCloud
from tritonstack_local.settings import CloudSettings

IN_EUROPE = {"LocationConstraint": REGION}
_accounts = itertools.count(300000000000)


class RestartableCloud:
    """A folder, the cloud that runs in it, and one account."""

    def __init__(self, folder: Path, *, account_id: str | None = None) -> None:
        self.folder = folder
        self.account_id = account_id or str(next(_accounts))
        self.tritons = FakeTritons()
        self.tritons.released.set()
        self._cloud: LocalCloud | None = None
        self.start()

    @property
    def account(self) -> Account:
        return Account(self.cloud.endpoint_url, self.account_id)

    @property
    def cloud(self) -> LocalCloud:
        assert self._cloud is not None
        return self._cloud

    def client(self, service):
        return self.account.client(service)

    def start(self) -> None:
        SHARED.end()
        _wipe()  # clear the state of earlier clouds in this process
        settings = CloudSettings(
            state_dir=self.folder, server_home=self.folder, account_id=self.account_id, region=REGION
        )

        def make_app(*, dependencies, server_home):
            del server_home
            return SageMakerApp(dependencies=dependencies, start_server=self.tritons)

        listener = socket.create_server(("127.0.0.1", 0))
        self._cloud = LocalCloud(settings=settings, listener=listener, make_sagemaker=make_app)
        register(self._cloud.endpoint_url, self._cloud.secret)

    def end(self) -> None:
        if self._cloud is not None:
            self._cloud.close()
            self._cloud = None
        _wipe()

    def restart(self) -> None:
        self.end()
        self.start()


def _wipe() -> None:
    for services in BackendDict._instances:
        services.clear()
    s3_backends.bucket_accounts.clear()
