"""A cloud in its own process, which tests kill."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from packages.local_cloud.tests.conftest import REGION, Account
from tests.credentials import register, variables_of
from tritonstack_local.access.own_routes import read_inventory
from tritonstack_local.cloud_folder import CloudAddress, read_address
from tritonstack_local.process import start_detached
from tritonstack_local.settings import CloudSettings

ACCOUNT = "400000000000"


class CloudProcess:
    """A cloud in a folder, started as `tritonstack up --detach` starts it."""

    def __init__(self, folder: Path, *, server_home: Path | None = None) -> None:
        self.folder = folder
        self._server_home = server_home or folder
        self.start()

    def start(self) -> CloudAddress:
        settings = CloudSettings(
            state_dir=self.folder, server_home=self._server_home, account_id=ACCOUNT, region=REGION
        )
        address = start_detached(settings)
        register(address.endpoint_url, address.secret)
        self.account = Account(address.endpoint_url, ACCOUNT)
        return address

    def kill(self) -> None:
        address = read_address(self.folder)
        assert address is not None
        os.kill(address.pid, signal.SIGKILL)
        while read_address(self.folder) is not None:
            time.sleep(0.01)

    def inventory(self) -> list[dict[str, Any]]:
        variables = variables_of(self.account.endpoint_url, ACCOUNT, region=REGION)
        return [item for item in read_inventory(variables) if not item.get("pending_deletion")]
