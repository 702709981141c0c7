"""Five templates in full and the digests of the others, so that reviews see what changes in an account.

After an intended change: UPDATE_SNAPSHOTS=1 pytest tests/stacks/test_snapshots.py
"""

import difflib
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.sample_templates import delivery_templates, sample_templates

FOLDER = Path(__file__).parents[1] / "snapshots"
DIGESTS = FOLDER / "digests.json"
UPDATE = "UPDATE_SNAPSHOTS"
WIDTH = 110


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return the templates of all stacks as texts."""
    delivery = {f"tritonstack-delivery-{name}": item for name, item in delivery_templates().items()}
    return {
        stack: as_text(general(template)) + "\n"
        for stack, template in (sample_templates() | delivery).items()
    }


@pytest.mark.parametrize("stack", sorted(file.stem for file in FOLDER.glob("tritonstack-*.json")))
def test_template_matches_its_snapshot(texts, stack):
    file = FOLDER / f"{stack}.json"
    if os.environ.get(UPDATE):
        file.write_text(texts[stack])
    difference = difflib.unified_diff(
        *(text.splitlines() for text in (file.read_text(), texts[stack])), "reviewed", "now", lineterm="", n=2
    )
    assert list(difference) == []


def test_templates_match_their_digests(texts):
    """`python -m tests.oracle --against` shows what differs."""
    digests = {
        stack: hashlib.sha256(text.encode()).hexdigest()[:16]
        for stack, text in sorted(texts.items())
        if not (FOLDER / f"{stack}.json").exists()
    }
    if os.environ.get(UPDATE):
        DIGESTS.write_text(json.dumps(digests, indent=1) + "\n")
    assert digests == json.loads(DIGESTS.read_text())


def general(template: dict[str, Any]) -> Any:
    """Return a template with readable dashboards, without the hash of the build code, which often changes."""
    value = json.loads(re.sub(r"[0-9a-f]{64}\.zip", "BUILD-SOURCE.zip", json.dumps(template)))
    for resource in value["Resources"].values():
        body = resource.get("Properties", {}).get("DashboardBody")
        if isinstance(body, str):
            resource["Properties"]["DashboardBody"] = json.loads(body)
    return value


def as_text(value: Any, depth: int = 0, reserved: int = 0) -> str:
    """Return JSON with each value on one line where it fits: a review sees values rather than brackets."""
    whole = json.dumps(value)
    if not isinstance(value, dict | list) or depth + reserved + len(whole) <= WIDTH:
        return whole
    items = value.items() if isinstance(value, dict) else (("", item) for item in value)
    names = [(f"{json.dumps(name)}: " if isinstance(value, dict) else "", item) for name, item in items]
    lines = [f"{' ' * (depth + 1)}{name}{as_text(item, depth + 1, len(name) + 1)}" for name, item in names]
    return f"{whole[0]}\n" + ",\n".join(lines) + f"\n{' ' * depth}{whole[-1]}"
