"""Names that are too long for AWS are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import NAME, write_environment
from tests.project.one_endpoint import complaints, environment
from tritonstack.project.loading import load_workspace

PREFIX = "p" * 20


def named(endpoint: str, **options: object) -> dict[str, object]:
    data = environment("")
    (spec,) = data["endpoints"].values()
    return {**data, "name_prefix": PREFIX, "endpoints": {endpoint: {**spec, **options}}}


def limit() -> int:
    """Return the longest endpoint name that keeps the full name within 63 characters."""
    return 63 - len(f"{PREFIX}-{NAME}-")


@pytest.mark.parametrize(
    ("options", "suffix", "what"),
    [
        ({}, "", "endpoint name"),
        ({"components": {"memory_mb": 512}}, "-component", "inference component name"),
    ],
)
def test_longest_name_is_checked(tmp_path: Path, options: dict[str, object], suffix: str, what: str) -> None:
    longest = "e" * (limit() - len(suffix))
    load_workspace(write_environment(tmp_path / "fits", named(longest, **options)), NAME)
    (complaint,) = complaints(tmp_path / "long", named(longest + "e", **options))
    assert f"expected an {what} of" in complaint
    assert "of at most 63 characters, got 64" in complaint
