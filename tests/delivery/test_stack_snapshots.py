"""Snapshots of the delivery stacks, so that reviews see every change of permissions.

After an intended change: UPDATE_SNAPSHOTS=1 pytest tests/delivery/test_stack_snapshots.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.stacks.test_stack_snapshots import compare

SNAPSHOTS = Path(__file__).parent / "snapshots"
STACKS = ("dev", "prod", "pipeline")


@pytest.mark.parametrize("stack", STACKS)
def test_template_is_as_it_was_reviewed(delivery_stacks, pipeline, stack):
    template = (delivery_stacks | {"pipeline": pipeline})[stack]
    text = json.dumps(template, indent=1) + "\n"
    compare(SNAPSHOTS / f"tritonstack-delivery-{stack}.json", text, by=Path(__file__).name)


def test_every_snapshot_is_compared():
    kept = {file.stem for file in SNAPSHOTS.glob("*.json")}
    assert kept == {f"tritonstack-delivery-{stack}" for stack in STACKS}
