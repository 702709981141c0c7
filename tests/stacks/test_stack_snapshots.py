"""Snapshots of every stack, so that reviews see every change of what is deployed.

After an intended change: UPDATE_SNAPSHOTS=1 pytest tests/stacks/test_stack_snapshots.py
"""

import json
import re

import pytest

from tests.reviewed_templates import (
    BASES,
    UPDATE,
    apply,
    compare_template,
    difference,
    reviewed_templates,
    stack_names,
)

# The bases of other snapshots come first, because an update writes in this order.
STACKS = (
    "tritonstack-every-endpoint-single",
    "tritonstack-every-endpoint-compared",
    "tritonstack-sample-foundation",
    "tritonstack-sample-build",
    "tritonstack-sample-endpoint-plain",
    "tritonstack-sample-monitoring",
    "tritonstack-every-endpoint-shelf",
    "tritonstack-every-endpoint-queued",
    "tritonstack-every-endpoint-component",
    "tritonstack-every-endpoint-shadowed",
    "tritonstack-every-endpoint-rolled",
    "tritonstack-factory-build",
    "tritonstack-walled-foundation",
    "tritonstack-walled-network",
    "tritonstack-walled-endpoint-captured",
)


@pytest.mark.parametrize("stack", STACKS)
def test_template_matches_the_reviewed_snapshot(sample, every, walled, factory, stack):
    assembly = {"sample": sample, "every": every, "walled": walled, "factory": factory}[stack.split("-")[1]]
    # The archive's name is a hash of the build code, which most changes of this repository change.
    text = re.sub(r"[0-9a-f]{64}\.zip", "BUILD-SOURCE.zip", assembly.text(stack))
    compare_template(stack, json.loads(text), test="tests/stacks/test_stack_snapshots.py")


def test_every_snapshot_is_compared():
    assert {stack for stack in stack_names() if "-delivery-" not in stack} == set(STACKS)


@pytest.mark.parametrize("stack", BASES)
def test_a_difference_gives_the_same_template(stack):
    templates = reviewed_templates()
    base, template = templates[BASES[stack]], templates[stack]
    assert apply(base, difference(base, template)) == template


def test_a_changed_template_is_reported_with_its_difference(sample, monkeypatch):
    monkeypatch.delenv(UPDATE, raising=False)
    stack = "tritonstack-sample-endpoint-plain"
    template = json.loads(sample.text(stack))
    template["Description"] = "changed"
    with pytest.raises(pytest.fail.Exception, match=r'\+ "Description": "changed"'):
        compare_template(stack, template, test="this")
