"""The cloud that these tests call through boto3."""

import pytest

from packages.local_cloud.tests.sagemaker.cloud import run_cloud
from packages.local_cloud.tests.sagemaker.fakes import FakeTritons


@pytest.fixture
def tritons():
    fakes = FakeTritons()
    yield fakes
    fakes.released.set()


@pytest.fixture
def cloud(tmp_path, tritons):
    with run_cloud(tmp_path, tritons) as running:
        yield running
