"""Snapshots of the delivery stacks, so that reviews see every change of permissions.

After an intended change: UPDATE_SNAPSHOTS=1 pytest tests/delivery/test_stack_snapshots.py
"""

import pytest

from tests.reviewed_templates import compare_template, stack_names

STACKS = ("dev", "prod", "pipeline")


@pytest.mark.parametrize("stack", STACKS)
def test_template_matches_the_reviewed_snapshot(delivery_stacks, pipeline, stack):
    template = (delivery_stacks | {"pipeline": pipeline})[stack]
    compare_template(f"tritonstack-delivery-{stack}", template, test="tests/delivery/test_stack_snapshots.py")


def test_every_snapshot_is_compared():
    kept = {stack for stack in stack_names() if "-delivery-" in stack}
    assert kept == {f"tritonstack-delivery-{stack}" for stack in STACKS}
