"""A stack in its own account."""

import pytest

from packages.local_cloud.tests.cloudformation.stacks import StackDriver
from packages.local_cloud.tests.conftest import Account


@pytest.fixture
def stack(account: Account) -> StackDriver:
    return StackDriver(account)
