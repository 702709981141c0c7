"""The cloud that these tests talk to through boto3."""

import pytest

from local_cloud.sagemaker import SageMakerApp
from tests.local_cloud.sagemaker.cloud import FakeTritons, run_cloud


@pytest.fixture
def tritons():
    fakes = FakeTritons()
    yield fakes
    fakes.released.set()


@pytest.fixture
def cloud(tmp_path, tritons):
    def make_app(url):
        return SageMakerApp(folder=tmp_path, region="eu-west-1", endpoint_url=url, start_server=tritons)

    yield from run_cloud(make_app)
