"""Snapshots of every stack, so that reviews see every change of what is deployed.

After an intended change: UPDATE_SNAPSHOTS=1 pytest tests/stacks/test_stack_snapshots.py
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import pytest

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "UPDATE_SNAPSHOTS"


STACKS = (
    "tritonstack-sample-foundation",
    "tritonstack-sample-endpoint-plain",
    "tritonstack-sample-endpoint-accelerated",
    "tritonstack-sample-monitoring",
    "tritonstack-every-endpoint-single",
    "tritonstack-every-endpoint-shelf",
    "tritonstack-every-endpoint-queued",
    "tritonstack-every-endpoint-component",
    "tritonstack-every-endpoint-compared",
    "tritonstack-every-endpoint-shadowed",
    "tritonstack-every-endpoint-rolled",
    "tritonstack-sample-build",
    "tritonstack-factory-build",
    "tritonstack-walled-foundation",
    "tritonstack-walled-network",
    "tritonstack-walled-endpoint-captured",
)


@pytest.mark.parametrize("stack", STACKS)
def test_template_is_as_it_was_reviewed(sample, every, walled, factory, stack):
    assembly = {"sample": sample, "every": every, "walled": walled, "factory": factory}[stack.split("-")[1]]
    # The archive's name is a hash of the build code, which most changes of this repository change.
    text = re.sub(r"[0-9a-f]{64}\.zip", "BUILD-SOURCE.zip", assembly.text(stack))
    compare(SNAPSHOTS / f"{stack}.json", text.rstrip() + "\n", by=Path(__file__).name)


def compare(file: Path, now: str, *, by: str) -> None:
    """Fail with the difference if a template differs from the reviewed one, or update it on request."""
    if os.environ.get(UPDATE):
        file.parent.mkdir(exist_ok=True)
        file.write_text(now)
    before = file.read_text() if file.exists() else ""
    if now != before:
        difference = difflib.unified_diff(
            before.splitlines(), now.splitlines(), "reviewed", "now", lineterm="", n=2
        )
        pytest.fail(
            f"the template of {file.stem} is not the one in {file.name}. If the change is meant, run "
            f"{UPDATE}=1 pytest {by} and commit the file.\n" + "\n".join(difference),
            pytrace=False,
        )


def test_every_snapshot_is_compared():
    assert {file.stem for file in SNAPSHOTS.glob("*.json")} == set(STACKS)
