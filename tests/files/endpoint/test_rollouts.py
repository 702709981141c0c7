"""How long a rollout may take."""

import pytest

from tritonstack.files.endpoint.rollouts import Canary, Linear, Rolling, longest_rollout_s


@pytest.mark.parametrize(("percent", "batches"), [(50, 2), (34, 3), (33, 4), (25, 4), (5, 20)])
def test_a_rolling_update_waits_after_each_batch(percent, batches):
    assert Rolling(strategy="rolling", batch_percent=percent, wait_s=60).shifting_s == batches * 60


@pytest.mark.parametrize(("percent", "batches"), [(50, 2), (34, 3), (25, 4)])
def test_each_batch_has_the_time_of_its_machines(percent, batches):
    rollout = Rolling(strategy="rolling", batch_percent=percent, wait_s=600)
    later = longest_rollout_s(rollout, starting_s=1000) - longest_rollout_s(rollout, starting_s=900)
    assert later == batches * 100


@pytest.mark.parametrize("rollout", [Canary(strategy="canary"), Linear(strategy="linear")])
def test_a_shift_starts_all_machines_at_once(rollout):
    assert longest_rollout_s(rollout, starting_s=3000) - longest_rollout_s(rollout, starting_s=2000) == 1000
