"""COVERAGE.md lists what this version of the local cloud implements, emulates, and rejects."""

from pathlib import Path

from tritonstack_local import coverage
from tritonstack_local.capabilities import limits, refused
from tritonstack_local.cloudformation.providers import PROVIDERS

PAGE = Path(__file__).parents[1] / "COVERAGE.md"


def test_the_page_is_up_to_date():
    command = "python -m tritonstack_local.coverage packages/local_cloud/COVERAGE.md"
    assert PAGE.read_text() == coverage.coverage_page(), f"COVERAGE.md is outdated; run `{command}`"


def test_the_page_lists_every_type_limit_and_rejection():
    rows = {line.split(" | ")[0].removeprefix("| ") for line in PAGE.read_text().splitlines()}
    assert PROVIDERS.keys() <= rows
    assert {limit.what for limit in limits()} <= rows
    assert refused().keys() <= rows
