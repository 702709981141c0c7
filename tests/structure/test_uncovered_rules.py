"""Each rule on project files has a rejected example."""

import subprocess
import sys

import pytest


@pytest.mark.soak
def test_every_rule_has_a_rejected_example():
    command = [sys.executable, "-m", "tools.uncovered_rules"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
