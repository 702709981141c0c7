"""The product has one helper for each of these tasks."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("tritonstack", "stacks", "model_build", "packages/local_cloud/tritonstack_local")
HELPERS = {
    r"\.response(\[|\.get\()[\"']Error[\"']|getattr\(error, .response": "tritonstack/base/errors.py",
    r"get_session\(\)\.get_service_model\(": "packages/local_cloud/tritonstack_local/service/wire.py",
}
"""What the code of a helper contains -> the only file with it."""


@pytest.mark.parametrize(("code", "file"), HELPERS.items())
def test_only_the_helper_does_this(code, file):
    files = [path for root in PRODUCT for path in (ROOT / root).rglob("*.py")]
    found = [path.relative_to(ROOT).as_posix() for path in files if re.search(code, path.read_text())]
    assert found == [file]
