"""examples/llm-vllm: its README, with a completion that arrives piece by piece."""

import re

import pytest

from tests.examples.running import passed

pytestmark = pytest.mark.soak


def test_its_readme_runs(tmp_path):
    result = passed("llm-vllm", tmp_path)
    assert [(model.model, model.kind) for model in result.models] == [
        ("storyteller", "single, text-generation")
    ]
    assert result.model_python_lines == 0
    log = (tmp_path / "log.txt").read_text()
    pieces = re.findall(r"^  (\d+) pieces, the first after \d+ ms, equal to \w+$", log, re.MULTILINE)
    assert len(pieces) == 3
    assert min(map(int, pieces)) > 5
    assert "rejected: " in log
    assert "Once upon a time" in log
