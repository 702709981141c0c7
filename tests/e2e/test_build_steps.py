"""The printed steps of a build account for the command's whole time."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import furnished_site
from tests.model_build.tiny import save_tiny_model, write_model

pytestmark = pytest.mark.soak  # it compares durations

ENVIRONMENT = """
name: local
account: "000000000000"
region: us-east-1
triton_release: "26.05"
removal: destroy
endpoints:
  tiny: {kind: single, model: tiny, instance_type: ml.c7i.xlarge}
"""
SECONDS = re.compile(r"\((\d+\.\d) s\)$")
ROUNDING_S = 0.05
"""A printed duration has one decimal place."""


def test_the_printed_steps_add_up_to_the_time_of_the_command(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    weights = save_tiny_model(tmp_path / "weights")
    write_model(root / "models" / "tiny", source=f"file://{weights}", takes="tokens")
    (root / "environments").mkdir()
    (root / "environments" / "local.yaml").write_text(ENVIRONMENT)
    site = furnished_site(root, shared=("server",))
    begin = time.monotonic()
    output = site.tritonstack("build", "local", "--no-publish")
    wall = time.monotonic() - begin
    lines = [line for line in output.splitlines() if SECONDS.search(line) and not line.startswith("✓")]
    steps = [float(SECONDS.search(line)[1]) for line in lines]  # type: ignore[index]
    rounding = ROUNDING_S * len(steps)
    assert lines[0].startswith("prepare: ")
    assert sum(steps) + rounding >= 0.95 * wall, f"{wall:.1f} s:\n{output}"
    assert sum(steps) - rounding <= wall, f"{wall:.1f} s:\n{output}"
