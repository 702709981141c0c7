"""A stack in an account of its own."""

import pytest

from tests.local_cloud.cloudformation.stacks import StackDriver
from tests.local_cloud.conftest import Account


@pytest.fixture
def stack(account: Account) -> StackDriver:
    return StackDriver(account)
