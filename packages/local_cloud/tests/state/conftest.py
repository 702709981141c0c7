"""A restartable cloud per test."""

import pytest

from packages.local_cloud.tests.state.restartable_cloud import RestartableCloud


@pytest.fixture
def cloud(tmp_path):
    restartable = RestartableCloud(tmp_path / "cloud")
    yield restartable
    restartable.end()
