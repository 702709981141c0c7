"""A cloud that tests restart."""

import itertools
from pathlib import Path

from packages.local_cloud.tests.conftest import REGION, SHARED, Account, start_cloud
from packages.local_cloud.tests.sagemaker.fakes import FakeTritons
from tritonstack_local.sagemaker import SageMakerApp
from tritonstack_local.server import LocalCloud

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

        def make_sagemaker(*, dependencies, server_home):
            del server_home
            return SageMakerApp(dependencies=dependencies, start_server=self.tritons)

        self._cloud = start_cloud(self.folder, make_sagemaker, account_id=self.account_id)

    def end(self) -> None:
        if self._cloud is not None:
            self._cloud.close()
            self._cloud = None

    def restart(self) -> None:
        self.end()
        self.start()
