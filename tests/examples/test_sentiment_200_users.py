"""examples/sentiment-200-users: its README, with 200 users at the same time."""

import re

import pytest

from tests.examples.running import passed

pytestmark = pytest.mark.soak


def test_its_readme_runs(tmp_path):
    result = passed("sentiment-200-users", tmp_path)
    assert [model.model for model in result.models] == ["sentiment-onnx", "sentiment-torchscript"]
    log = (tmp_path / "log.txt").read_text()
    runs = re.findall(r"^(\S+): 200 users, (\d+) answers in 3 s, .* 0 errors$", log, re.MULTILINE)
    assert [endpoint for endpoint, _ in runs] == ["tritonstack-local-onnx", "tritonstack-local-torchscript"]
    assert all(int(answers) >= 200 for _, answers in runs)
