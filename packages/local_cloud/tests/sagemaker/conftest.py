"""The cloud that these tests call through boto3."""

import pytest

from packages.local_cloud.tests.sagemaker.cloud import FakeTritons, run_cloud
from tritonstack_local.sagemaker import SageMakerApp


@pytest.fixture
def tritons():
    fakes = FakeTritons()
    yield fakes
    fakes.released.set()


@pytest.fixture
def cloud(tmp_path, tritons):
    def make_app(dependencies):
        return SageMakerApp(dependencies=dependencies, start_server=tritons)

    yield from run_cloud(make_app, tmp_path)
